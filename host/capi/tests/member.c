/* SPDX-License-Identifier: Apache-2.0 */
/* A member in C. Its agent has group g, ready with 2 receivers, r9 evicted; the test deletes g when it reads "watching". */
#include "canopy_host.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_at(int line, int good, const char *what, const canopy_error *error) {
  if (!good) {
    printf("line %d: %s: %d %s\n", line, what, error->code, error->message);
    exit(1);
  }
}
#define CHECK(what) check_at(__LINE__, (what), #what, &error)

static canopy_error error;

static canopy_join_options options(const char *host, uint32_t qpn) {
  canopy_join_options o = CANOPY_JOIN_OPTIONS_INIT;
  o.group = "g", o.host = host, o.role = CANOPY_ROLE_RECEIVER, o.qpn = qpn;
  o.va = 0x1000, o.rkey = 7, o.length = 4096;
  return o;
}

static void *join_by_itself(void *client) {
  canopy_join_options o = options("r2", 18);
  canopy_membership *m;
  int32_t code = canopy_join(client, &o, &m, NULL);
  canopy_membership_free(m);
  return (void *)(intptr_t)code;
}

static void layout(void) {
#define FIELD(type, field) printf("%s.%s %zu\n", #type, #field, offsetof(type, field))
  printf("canopy_error %zu\n", sizeof(canopy_error));
  printf("canopy_join_options %zu\n", sizeof(canopy_join_options));
  printf("canopy_connection %zu\n", sizeof(canopy_connection));
  printf("canopy_ready %zu\n", sizeof(canopy_ready));
  printf("canopy_event %zu\n", sizeof(canopy_event));
  FIELD(canopy_error, message);
  FIELD(canopy_join_options, address);
  FIELD(canopy_join_options, va);
  FIELD(canopy_join_options, length);
  FIELD(canopy_join_options, rkey);
  FIELD(canopy_join_options, timeout_ms);
  FIELD(canopy_join_options, flags);
  FIELD(canopy_connection, start_psn);
  FIELD(canopy_connection, write_rkey);
  FIELD(canopy_connection, write_base_va);
  FIELD(canopy_event, write_length);
  FIELD(canopy_event, host);
  FIELD(canopy_event, reason);
}

int main(int argc, char **argv) {
  canopy_client *client = NULL;
  canopy_membership *member = NULL;
  canopy_events *events = NULL;
  canopy_connection connection;
  canopy_ready ready;
  canopy_event event;
  pthread_t threads[4];

  if (argc != 2) return 2;
  layout();
  CHECK(canopy_abi_version() == CANOPY_ABI_VERSION);
  CHECK(canopy_client_connect(NULL, &client, &error) == CANOPY_E_INVALID && !strcmp(error.field, "path"));
  CHECK(canopy_client_connect("/nonexistent/host.sock", &client, &error) == CANOPY_E_SOCKET && client == NULL);
  CHECK(canopy_client_connect(argv[1], NULL, NULL) == CANOPY_E_INVALID);
  CHECK(canopy_client_connect_with_token(argv[1], NULL, &client, &error) == CANOPY_E_INVALID &&
        !strcmp(error.field, "token_file"));
  CHECK(canopy_client_connect_with_token(argv[1], "/nonexistent/token", &client, &error) == CANOPY_OK);
  canopy_join_options o = options("r1", 17);
  CHECK(canopy_join(client, &o, &member, &error) == CANOPY_E_INVALID && !strcmp(error.field, "token_file"));
  canopy_client_free(client);
  CHECK(canopy_client_connect(argv[1], &client, &error) == CANOPY_OK);

  o = options("r1", 1);
  CHECK(canopy_join(client, &o, &member, &error) == CANOPY_E_INVALID && !strcmp(error.field, "qpn"));
  o = options("theirs", 17);
  CHECK(canopy_join(client, &o, &member, &error) == CANOPY_E_NOT_PERMITTED && strstr(error.message, "uid 7"));
  o = options("r1", 17);
  o.size -= 1;
  CHECK(canopy_join(client, &o, &member, &error) == CANOPY_E_INVALID && !strcmp(error.field, "size"));
  o = options("r1", 17);
  o.role = 3;
  CHECK(canopy_join(client, &o, &member, &error) == CANOPY_E_INVALID && !strcmp(error.field, "role"));
  o.role = CANOPY_ROLE_SOURCE, o.start_psn = 7;
  CHECK(canopy_join(client, &o, &member, &error) == CANOPY_E_INVALID && strstr(error.message, "CANOPY_START_PSN(7)"));
  o.start_psn = CANOPY_START_PSN(0x1000000);
  CHECK(canopy_join(client, &o, &member, &error) == CANOPY_E_INVALID && !strcmp(error.field, "start_psn"));
  o.start_psn = 0;
  o = options("r1", 17);
  o.group = "absent";
  CHECK(canopy_join(client, &o, &member, &error) == CANOPY_E_NO_SUCH_GROUP && member == NULL);
  CHECK(canopy_join(NULL, &o, &member, &error) == CANOPY_E_INVALID && !strcmp(error.field, "client"));
  o = options("r1", 17);
  memcpy(o.address, (uint8_t[16]){0x20, 1, 0xd, 0xb8, [15] = 5}, 16);
  CHECK(canopy_join(client, &o, &member, &error) == CANOPY_OK);

  CHECK(canopy_membership_connection(member, &connection, &error) == CANOPY_OK);
  CHECK(connection.proxy_address[0] == 0xfc && connection.proxy_address[15] == 7);
  CHECK(connection.designated_qpn == 0x123456 && connection.start_psn == 0xfffff0 && connection.path_mtu == 2048);
  CHECK(connection.write_base_va == 1ull << 40 && connection.write_rkey == 9);

  CHECK(canopy_wait_ready(member, 3, 50, &ready, &error) == CANOPY_E_TIMEOUT && strstr(error.message, "2 of 3"));
  CHECK(canopy_wait_ready(member, 2, -1, &ready, &error) == CANOPY_E_INVALID && !strcmp(error.field, "timeout_ms"));
  CHECK(canopy_wait_ready(member, 2, 60000, &ready, &error) == CANOPY_OK);
  CHECK(ready.receivers == 2 && ready.write_length == 4096);

  for (int i = 0; i < 4; i++) CHECK(!pthread_create(&threads[i], NULL, join_by_itself, client));
  for (int i = 0; i < 4; i++) {
    void *code;
    CHECK(!pthread_join(threads[i], &code) && code == (void *)CANOPY_OK);
  }

  CHECK(canopy_events_open(member, &events, &error) == CANOPY_OK);
  CHECK(canopy_events_next(events, 60000, &event, &error) == CANOPY_OK && event.kind == CANOPY_EVENT_EVICTED);
  CHECK(!strcmp(event.host, "r9") && strlen(event.reason) == CANOPY_TEXT_MAX - 1);
  CHECK(canopy_events_next(events, 60000, &event, &error) == CANOPY_OK && event.kind == CANOPY_EVENT_READY);
  CHECK(event.receivers == 2 && event.write_length == 4096);
  CHECK(canopy_events_next(events, 50, &event, &error) == CANOPY_E_TIMEOUT);

  CHECK(canopy_leave(member, &error) == CANOPY_OK);
  CHECK(canopy_leave_host(client, "g", "r2", &error) == CANOPY_OK);
  /* In any order, and events outlive what they came from. */
  canopy_client_free(client);
  canopy_membership_free(member);
  canopy_client_free(NULL);
  printf("watching\n");
  fflush(stdout);
  CHECK(canopy_events_next(events, 60000, &event, &error) == CANOPY_OK && event.kind == CANOPY_EVENT_DELETED);
  CHECK(canopy_events_next(events, 60000, &event, &error) == CANOPY_E_END);
  canopy_events_free(events);
  return 0;
}
