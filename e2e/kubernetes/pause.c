// SPDX-License-Identifier: Apache-2.0
// The first process of each pod of the test cluster: it holds the pod's namespaces and reaps their orphans.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number) { _exit(number == SIGTERM ? 0 : 1); }

static void reap(int number) {
  (void)number;
  while (waitpid(-1, 0, WNOHANG) > 0)
    ;
}

int main(void) {
  signal(SIGTERM, end);
  signal(SIGINT, end);
  signal(SIGCHLD, reap);
  for (;;)
    pause();
}
