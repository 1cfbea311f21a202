/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library with which an RDMA application joins a Canopy group instead of exchanging QPNs with its peers.
 *
 * The application creates an RC queue pair, joins with its QPN, and connects the queue pair to the returned
 * parameters. The library never touches the queue pair.
 *
 * Threads: every function may be called from any thread, also on the same handle at the same time, except the *_free
 * functions: no other thread may be using the handle then, nor afterwards. Calls on one canopy_events are serialized.
 * Handles may be freed in any order. After fork() the child must not use the parent's handles: it connects anew.
 *
 * Errors: functions that can fail return CANOPY_OK or an error, and fill *error unless it is NULL. No function aborts,
 * and no Rust panic leaves the library.
 *
 * Strings are UTF-8 with a terminating NUL. A string longer than its array is cut at a character.
 */
#ifndef CANOPY_HOST_H
#define CANOPY_HOST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Incremented when something is added; canopy_abi_version() returns that of the library at run time. */
#define CANOPY_ABI_VERSION 3u

/* Default socket of an agent that is the only one of its machine. */
#define CANOPY_DEFAULT_SOCKET "/run/canopy/host.sock"

/* Return values. */
#define CANOPY_OK 0
/* The agent's socket cannot be opened. */
#define CANOPY_E_SOCKET 1
/* An argument is wrong; canopy_error.field names it. */
#define CANOPY_E_INVALID 2
/* This user may not call the agent, or the membership is another user's. */
#define CANOPY_E_NOT_PERMITTED 3
/* There is no such group, or it was deleted. */
#define CANOPY_E_NO_SUCH_GROUP 4
/* The host is in the group already, with other content: leave first. */
#define CANOPY_E_ALREADY_JOINED 5
/* The stall policy stopped the group: every member has to leave before it can be used again. */
#define CANOPY_E_GROUP_FAILED 6
/* The group's state does not permit this. */
#define CANOPY_E_NOT_POSSIBLE 7
/* A limit of the agent or the controller. */
#define CANOPY_E_LIMIT 8
/* No answer in time; the request may have been executed, and repeating it is safe. */
#define CANOPY_E_UNAVAILABLE 9
/* Timeout: the group is not ready, or there was no event. */
#define CANOPY_E_TIMEOUT 10
/* The versions of agent and library do not fit. */
#define CANOPY_E_PROTOCOL 11
/* A fault of the agent, the controller or the library. */
#define CANOPY_E_INTERNAL 12
/* The group was deleted, and its CANOPY_EVENT_DELETED was returned: no event follows. */
#define CANOPY_E_END 13

/* Roles. */
#define CANOPY_ROLE_SOURCE 1u
#define CANOPY_ROLE_RECEIVER 2u

/* Kinds of events. */
#define CANOPY_EVENT_WAITING 1u         /* reason: no source or receiver, or nodes are being programmed */
#define CANOPY_EVENT_READY 2u           /* receivers, write_length */
#define CANOPY_EVENT_DEGRADED 3u        /* reason */
#define CANOPY_EVENT_RECEIVER_JOINED 4u /* receivers: how many there are */
#define CANOPY_EVENT_RECEIVER_LEFT 5u   /* receivers: how many there are */
#define CANOPY_EVENT_EVICTED 6u         /* host, reason: it does not have the data that it had not acknowledged */
#define CANOPY_EVENT_FAILED 7u          /* reason: every member has to leave */
#define CANOPY_EVENT_DISCONNECTED 8u    /* reason: the agent or its controller is unreachable; forwarding continues */
#define CANOPY_EVENT_RECONNECTED 9u     /* events for the changes in between follow */
#define CANOPY_EVENT_DELETED 10u        /* no event follows */
#define CANOPY_EVENT_SESSION_ENDED 11u  /* the source left or joined again: reset the queue pair and join again */

#define CANOPY_NAME_MAX 64u
#define CANOPY_TEXT_MAX 1024u

typedef struct canopy_client canopy_client;
typedef struct canopy_membership canopy_membership;
typedef struct canopy_events canopy_events;

typedef struct canopy_error {
  int32_t code;                  /* as returned */
  char field[CANOPY_NAME_MAX];   /* the argument that is wrong, with CANOPY_E_INVALID; else empty */
  char message[CANOPY_TEXT_MAX]; /* what is wrong and what to do */
} canopy_error;

typedef struct canopy_join_options {
  size_t size;          /* sizeof(canopy_join_options): set by CANOPY_JOIN_OPTIONS_INIT */
  const char *group;    /* name of the group, which an operator has declared */
  const char *host;     /* name of this host in the topology */
  uint32_t role;        /* CANOPY_ROLE_* */
  uint32_t qpn;         /* local QPN, 2..0xFFFFFE */
  uint8_t address[16];  /* IPv6 address of the queue pair; all zero = the host's default address */
  uint64_t va;          /* memory that RDMA WRITEs land in; receivers only, length 0 = none */
  uint64_t length;
  uint32_t rkey;
  uint32_t start_psn;   /* 0 = that of the answer; a source that cannot choose its first PSN: CANOPY_START_PSN(psn) */
  int64_t timeout_ms;   /* how long to retry while the agent does not answer; 0 = 30 s */
  uint64_t flags;       /* CANOPY_JOIN_*; 0 = with a lease */
} canopy_join_options;

/* The membership lasts until someone leaves. Else it has a lease: when the process ends, however it ends, or the last of the
   client, its memberships and events is freed, the host leaves within a second. A restart of the agent ends no lease. */
#define CANOPY_JOIN_WITHOUT_LEASE 1u

/* Fixes the first PSN of the source's queue pair; refused when receivers have joined with another. */
#define CANOPY_START_PSN(psn) (0x80000000u | (psn))

#define CANOPY_JOIN_OPTIONS_INIT { sizeof(canopy_join_options), NULL, NULL, 0, 0, {0}, 0, 0, 0, 0, 0, 0 }

/* Connection parameters of the queue pair; the same for the source and for receivers. */
typedef struct canopy_connection {
  uint8_t proxy_address[16]; /* remote address: ah_attr.grh.dgid of a RoCEv2 queue pair */
  uint32_t designated_qpn;   /* dest_qp_num */
  uint32_t start_psn;        /* rq_psn and sq_psn */
  uint32_t path_mtu;         /* bytes */
  uint32_t write_rkey;       /* R_Key of the source's RDMA WRITEs */
  uint64_t write_base_va;    /* virtual address that the source's WRITEs count from */
  uint64_t write_length;     /* bytes that every receiver had registered; 0 = RDMA WRITE is not possible yet */
} canopy_connection;

typedef struct canopy_ready {
  uint32_t receivers;
  uint32_t reserved;
  uint64_t write_length; /* bytes that every receiver has registered; 0 = RDMA WRITE is not possible */
} canopy_ready;

typedef struct canopy_event {
  uint32_t kind; /* CANOPY_EVENT_* */
  uint32_t receivers;
  uint64_t write_length;
  char host[CANOPY_NAME_MAX];
  char reason[CANOPY_TEXT_MAX];
} canopy_event;

/* CANOPY_ABI_VERSION of the library. */
uint32_t canopy_abi_version(void);

/* Connects to the agent's socket at an absolute path. Fails at once if it is not there or may not be opened. */
int32_t canopy_client_connect(const char *path, canopy_client **client, canopy_error *error);
/* The same for an agent that knows its callers by the tokens of their pods. token_file has that of this pod's service account; it is read
 * for each call. canopy_client_connect sends the token in the file that the environment names in CANOPY_TOKEN_FILE, if it has one. */
int32_t canopy_client_connect_with_token(const char *path, const char *token_file, canopy_client **client,
                                         canopy_error *error);
/* NULL is permitted. Its memberships and events stay valid. */
void canopy_client_free(canopy_client *client);

/* Joins. Joining again with the same content is a success, also after the process died in between; once the group was ready, it
 * means that the queue pair was reset: a source then begins another session, and a receiver starts with the next message. */
int32_t canopy_join(canopy_client *client, const canopy_join_options *options, canopy_membership **membership,
                    canopy_error *error);
/* Ends a membership, also that of a process that has exited. Succeeds if the host is not in the group. */
int32_t canopy_leave_host(canopy_client *client, const char *group, const char *host, canopy_error *error);

/* The connection parameters that the join returned. */
int32_t canopy_membership_connection(const canopy_membership *membership, canopy_connection *connection,
                                     canopy_error *error);
/* Waits until the group is ready with at least this many receivers that get data: one that joined late counts once its queue pair has
 * answered a probe. ready may be NULL. */
int32_t canopy_wait_ready(canopy_membership *membership, uint32_t receivers, int64_t timeout_ms, canopy_ready *ready,
                          canopy_error *error);
/* Leaves; call it again if it fails with CANOPY_E_UNAVAILABLE. The handle stays valid. */
int32_t canopy_leave(canopy_membership *membership, canopy_error *error);
/* Does not leave the group while the client or events are left; see CANOPY_JOIN_WITHOUT_LEASE. NULL is permitted. */
void canopy_membership_free(canopy_membership *membership);

/* The events of the group from now on, its current state first. Each handle has its own. */
int32_t canopy_events_open(canopy_membership *membership, canopy_events **events, canopy_error *error);
/* Waits for the next event: CANOPY_E_TIMEOUT if there is none in time, CANOPY_E_END after CANOPY_EVENT_DELETED. */
int32_t canopy_events_next(canopy_events *events, int64_t timeout_ms, canopy_event *event, canopy_error *error);
/* NULL is permitted. */
void canopy_events_free(canopy_events *events);

#ifdef __cplusplus
}
#endif

#endif
