/* SPDX-License-Identifier: Apache-2.0 */
/* Garbage, half-open, slow and over-long clients on the control port, before and while a
 * group forms and when it is up: they are closed and counted, and nothing else happens. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "boot/auth.h"
#include "boot/id.h"
#include "boot_util.h"

enum { SIZE = 4 };

static atomic_bool stop;
static atomic_int silent_fds[8];

static int connect_to(const struct id_parts *id)
{
	struct addr lo = { .family = 4, .ip = { 127, 0, 0, 1 } };
	struct sockaddr_storage sa;
	socklen_t len = addr_sockaddr(&sa, &lo, id->meet.port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(connect(fd, (void *)&sa, len) == 0);
	return fd;
}

static void send_all(int fd, const void *data, size_t len)
{
	CHECK(send(fd, data, len, MSG_NOSIGNAL) == (ssize_t)len || errno == EPIPE || errno == ECONNRESET);
}

/* True: the other side closed. */
static bool is_closed(int fd)
{
	struct timeval t = { .tv_sec = 5 };
	char byte[512];
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	do
		n = recv(fd, byte, sizeof(byte), 0);
	while (n > 0);
	return n == 0 || errno == ECONNRESET;
}

static void garbage(const struct id_parts *id)
{
	uint8_t noise[512];
	int fd = connect_to(id);

	auth_random(noise, sizeof(noise));
	noise[7] = 1; /* a reserved byte */
	send_all(fd, noise, sizeof(noise));
	CHECK(is_closed(fd));
	close(fd);
}

static void http(const struct id_parts *id)
{
	int fd = connect_to(id);

	send_all(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
	CHECK(is_closed(fd));
	close(fd);
}

static void too_long(const struct id_parts *id)
{
	const uint8_t head[8] = { 0xff, 0xff, 0xff, 0x7f, FRAME_HELLO };
	int fd = connect_to(id);

	send_all(fd, head, sizeof(head));
	CHECK(is_closed(fd));
	close(fd);
}

static struct hello hello_to(const struct id_parts *id, enum purpose purpose)
{
	struct hello h = { .version = BOOT_VERSION, .purpose = purpose, .to = 0, .from = 1 };

	memcpy(h.key, id->key, KEY_BYTES);
	return h;
}

/* A right hello, and a proof made without the secret. */
static void impostor(const struct id_parts *id, enum purpose purpose)
{
	struct hello h = hello_to(id, purpose);
	uint8_t mac[MAC_BYTES] = { 0 }, challenge[FRAME_HEADER + NONCE_BYTES + MAC_BYTES];
	struct buf b = { 0 };
	int fd = connect_to(id);

	hello_put(&b, &h);
	send_all(fd, b.data, b.len);
	b.len = 0;
	CHECK(recv(fd, challenge, sizeof(challenge), MSG_WAITALL) == (ssize_t)sizeof(challenge));
	proof_put(&b, mac, "payload", 7);
	send_all(fd, b.data, b.len);
	CHECK(is_closed(fd));
	buf_cleanup(&b);
	close(fd);
}

static void other_version(const struct id_parts *id)
{
	struct hello h = hello_to(id, FOR_PROBE);
	struct buf b = { 0 };
	uint8_t reply[600];
	int fd = connect_to(id);
	ssize_t n;

	h.version = 77;
	hello_put(&b, &h);
	send_all(fd, b.data, b.len);
	n = recv(fd, reply, sizeof(reply) - 1, 0);
	CHECK(n > FRAME_HEADER + 6 && reply[4] == FRAME_REJECT);
	reply[n > 0 ? n : 0] = '\0';
	CHECK(n > 14 && strstr((char *)reply + 14, "version 1 there, 77 here"));
	CHECK(is_closed(fd));
	buf_cleanup(&b);
	close(fd);
}

/* A byte now and then: must not hold up anybody. */
static void *slow(void *arg)
{
	const struct id_parts *id = arg;
	struct hello h = hello_to(id, FOR_CHECKIN);
	struct buf b = { 0 };
	int fd = connect_to(id);

	hello_put(&b, &h);
	for (size_t i = 0; i + 1 < b.len && !atomic_load(&stop); i++) {
		send_all(fd, b.data + i, 1);
		sleep_ms(10);
	}
	buf_cleanup(&b);
	close(fd);
	return NULL;
}

static void attack(const struct id_parts *id, bool joined)
{
	unsigned long before = boot_rejected();

	garbage(id);
	http(id);
	too_long(id);
	CHECK(boot_rejected() == before + 3);
	other_version(id);
	CHECK(boot_rejected() == before + 4);
	if (!joined)
		return;
	impostor(id, FOR_CHECKIN);
	impostor(id, FOR_TREE);
	impostor(id, FOR_DIAL);
	impostor(id, FOR_NOTICE);
	CHECK(boot_rejected() == before + 8);
}

static int rank_main(int rank)
{
	struct config cfg = test_config();
	struct id_parts id;
	struct boot *b = NULL;
	pthread_t thread;

	if (rank == 0) {
		CHECK(boot_id_create(&page->id, &cfg) == TAUT_OK);
		CHECK(id_unpack(&id, &page->id) == TAUT_OK);
		attack(&id, false);
		for (int i = 0; i < 8; i++)
			atomic_store(&silent_fds[i], connect_to(&id));
		pthread_create(&thread, NULL, slow, &id);
		atomic_store(&page->id_there, 1);
	}
	share_id(rank ? rank : 1, &cfg);
	CHECK(boot_create(&b, &page->id, rank, SIZE, 20000, &cfg, NULL) == TAUT_OK);
	if (!b)
		return 1;
	for (int i = 0; i < 10; i++)
		CHECK(boot_barrier(b) == TAUT_OK);
	if (rank == 0)
		attack(&id, true);
	CHECK(boot_barrier(b) == TAUT_OK);
	boot_close(b);
	if (rank == 0) {
		atomic_store(&stop, true);
		pthread_join(thread, NULL);
		for (int i = 0; i < 8; i++)
			close(atomic_load(&silent_fds[i]));
	}
	config_cleanup(&cfg);
	return 0;
}

/* With an interface chosen, what comes to an address of another one is refused. */
static int chosen_interface(int rank)
{
	struct config cfg = test_config();
	struct id_parts id;
	struct boot *b = NULL;
	struct addr all[ADDR_MAX];
	int n, fd;

	CHECK(addr_candidates(all, ADDR_MAX, &n, &cfg) == TAUT_OK);
	CHECK(config_set(&cfg, "TAUT_SOCKET_IFNAME", "=lo") == TAUT_OK);
	CHECK(config_set(&cfg, "TAUT_HOSTID", rank ? "a" : "b") == TAUT_OK);
	share_id(rank, &cfg);
	CHECK(id_unpack(&id, &page->id) == TAUT_OK);
	CHECK(id.meet.naddr >= 1 && id.meet.addrs[0].family == 4 && id.meet.addrs[0].ip[0] == 127);
	CHECK(boot_create(&b, &page->id, rank, 2, 20000, &cfg, NULL) == TAUT_OK);
	if (rank == 0 && all[0].family == 4 && all[0].ip[0] != 127) {
		struct sockaddr_storage sa;
		socklen_t len = addr_sockaddr(&sa, &all[0], id.meet.port);
		unsigned long before = boot_rejected();

		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		CHECK(connect(fd, (void *)&sa, len) == 0);
		CHECK(is_closed(fd));
		CHECK(boot_rejected() == before + 1);
		close(fd);
	}
	CHECK(b && boot_barrier(b) == TAUT_OK);
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

int main(void)
{
	log_now.level = LOG_WARN;
	page_new();
	start_ranks(0, SIZE, rank_main);
	wait_ranks(0, SIZE, 0);
	page_new();
	start_ranks(0, 2, chosen_interface);
	wait_ranks(0, 2, 0);
	return failures != 0;
}
