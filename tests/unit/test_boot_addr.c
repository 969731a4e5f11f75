/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

#include "base/log.h"
#include "boot/addr.h"

static void interface_lists_have_the_syntax_of_nccl(void **state)
{
	(void)state;
	assert_true(addr_name_matches("", "eth0"));
	assert_true(addr_name_matches("eth", "eth0"));
	assert_true(addr_name_matches("ib,eth", "eth1"));
	assert_false(addr_name_matches("ib,eth", "lo"));
	assert_false(addr_name_matches("eth0", "eth"));
	assert_true(addr_name_matches("=eth0", "eth0"));
	assert_false(addr_name_matches("=eth0", "eth01"));
	assert_true(addr_name_matches("=eth1,eth0", "eth0"));
	assert_false(addr_name_matches("^docker,lo", "docker0"));
	assert_false(addr_name_matches("^docker,lo", "lo"));
	assert_true(addr_name_matches("^docker,lo", "eth0"));
	assert_false(addr_name_matches("^=eth0", "eth0"));
	assert_true(addr_name_matches("^=eth0", "eth01"));
}

static void empty_names_in_a_list_match_nothing(void **state)
{
	(void)state;
	assert_false(addr_name_matches(",", "eth0"));
	assert_true(addr_name_matches(",,eth0,", "eth0"));
	assert_true(addr_name_matches("^", "eth0"));
	assert_false(addr_name_matches("=", "eth0"));
	assert_true(addr_name_matches("^,", "eth0"));
}

static void container_bridges_come_late_and_the_loopback_last(void **state)
{
	(void)state;
	assert_true(addr_name_order("ib0", false) < addr_name_order("eth0", false));
	assert_true(addr_name_order("eth0", false) < addr_name_order("docker0", false));
	assert_true(addr_name_order("eth0", false) < addr_name_order("veth1f3", false));
	assert_true(addr_name_order("docker0", false) < addr_name_order("lo", true));
	assert_int_equal(addr_name_order("br-1234", false), addr_name_order("virbr0", false));
}

static void this_host_has_a_loopback_to_offer(void **state)
{
	struct config cfg = { 0 };
	char ifname[] = "lo";
	struct addr list[ADDR_MAX];
	int n = 0;

	(void)state;
	cfg.ifname = ifname;
	cfg.family = 1;
	assert_int_equal(addr_candidates(list, ADDR_MAX, &n, &cfg), TAUT_OK);
	assert_true(n >= 1);
	for (int i = 0; i < n; i++)
		assert_int_equal(list[i].family, 4);
	assert_int_equal(list[0].ip[0], 127);
	assert_int_equal(addr_candidates(list, 1, &n, &cfg), TAUT_OK);
	assert_int_equal(n, 1);
}

static void no_matching_interface_is_an_error_that_names_what_there_is(void **state)
{
	struct config cfg = { 0 };
	char ifname[] = "=none-such";
	struct addr list[ADDR_MAX];
	int n = 77;

	(void)state;
	cfg.ifname = ifname;
	assert_int_equal(addr_candidates(list, ADDR_MAX, &n, &cfg), TAUT_ERR_CONFIG);
	assert_int_equal(n, 77);
	assert_non_null(strstr(taut_error_message(), "=none-such"));
	assert_non_null(strstr(taut_error_message(), " lo"));
}

static void socket_addresses_go_there_and_back(void **state)
{
	struct addr v4 = { .family = 4, .ip = { 10, 1, 2, 3 } }, v6 = { .family = 6, .ip = { 0xfd, [15] = 9 } }, got;
	struct sockaddr_storage sa;
	struct sockaddr_in6 *in6 = (void *)&sa;
	char text[ADDR_TEXT];

	(void)state;
	assert_int_equal(addr_sockaddr(&sa, &v4, 80), sizeof(struct sockaddr_in));
	assert_true(addr_from_sockaddr(&got, (void *)&sa));
	assert_memory_equal(&got, &v4, sizeof(got));
	assert_int_equal(addr_sockaddr(&sa, &v6, 80), sizeof(struct sockaddr_in6));
	assert_true(addr_from_sockaddr(&got, (void *)&sa));
	assert_memory_equal(&got, &v6, sizeof(got));
	assert_string_equal(addr_text(text, &v4, 80), "10.1.2.3:80");
	assert_string_equal(addr_text(text, &v6, 80), "[fd00::9]:80");
	in6->sin6_addr.s6_addr[0] = 0xfe; /* link-local: useless to others */
	in6->sin6_addr.s6_addr[1] = 0x80;
	assert_false(addr_from_sockaddr(&got, (void *)&sa));
	memset(&in6->sin6_addr, 0, 16);
	memset(in6->sin6_addr.s6_addr + 10, 0xff, 2);
	in6->sin6_addr.s6_addr[12] = 10; /* IPv4 in IPv6's clothes */
	assert_true(addr_from_sockaddr(&got, (void *)&sa));
	assert_int_equal(got.family, 4);
	assert_int_equal(got.ip[0], 10);
}

static void unix_addresses_are_abstract_and_fit(void **state)
{
	uint8_t uniq[UNIQ_BYTES];
	struct sockaddr_storage sa;
	struct sockaddr_un *un = (void *)&sa;
	char name[200];
	socklen_t len;

	(void)state;
	memset(uniq, 0xab, sizeof(uniq));
	len = addr_unix(&sa, uniq);
	assert_int_equal(un->sun_path[0], 0);
	assert_memory_equal(un->sun_path + 1, "taut-abab", 9);
	assert_int_equal(len, offsetof(struct sockaddr_un, sun_path) + 1 + 5 + 32);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(addr_abstract(&sa, name), sizeof(struct sockaddr_un));
}

static void names_resolve_or_the_error_names_them(void **state)
{
	struct target t;

	(void)state;
	assert_int_equal(addr_resolve(&t, "127.0.0.1:1234", "SETTING"), TAUT_OK);
	assert_int_equal(t.port, 1234);
	assert_int_equal(t.naddr, 1);
	assert_int_equal(t.addrs[0].ip[0], 127);
	assert_int_equal(addr_resolve(&t, "[::1]:65535", "SETTING"), TAUT_OK);
	assert_int_equal(t.port, 65535);
	assert_int_equal(t.addrs[0].family, 6);
	assert_int_equal(addr_resolve(&t, "no.such.name.invalid:1", "SETTING"), TAUT_ERR_NET);
	assert_non_null(strstr(taut_error_message(), "no.such.name.invalid"));
	assert_non_null(strstr(taut_error_message(), "SETTING"));
}

static void odd_meeting_points_are_refused(void **state)
{
	static const char *const bad[] = { "",		 "host",    ":1",      "host:",	  "host:0",
					   "host:65536", "host:1x", "host:-1", "host: 1", "[]:1" };
	struct target t;
	char text[600];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_not_equal(addr_resolve(&t, bad[i], "SETTING"), TAUT_OK);
	memset(text, 'a', sizeof(text));
	strcpy(text + 500, ":1");
	assert_int_equal(addr_resolve(&t, text, "SETTING"), TAUT_ERR_CONFIG);
}

static void addresses_are_read_as_they_were_written(void **state)
{
	struct addr v4 = { .family = 4, .ip = { 1, 2, 3, 4 } }, v6 = { .family = 6, .ip = { 1, [15] = 2 } }, got;
	struct buf b = { 0 };
	struct reader r;

	(void)state;
	addr_put(&b, &v4);
	addr_put(&b, &v6);
	assert_int_equal(b.len, 5 + 17);
	r = (struct reader){ .at = b.data, .left = b.len };
	assert_true(addr_get(&got, &r));
	assert_memory_equal(&got, &v4, sizeof(got));
	assert_true(addr_get(&got, &r));
	assert_memory_equal(&got, &v6, sizeof(got));
	assert_false(addr_get(&got, &r));
	b.data[0] = 5;
	r = (struct reader){ .at = b.data, .left = b.len };
	assert_false(addr_get(&got, &r));
	buf_cleanup(&b);
}

static int quiet(void **state)
{
	(void)state;
	log_now.level = LOG_NONE;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interface_lists_have_the_syntax_of_nccl),
		cmocka_unit_test(empty_names_in_a_list_match_nothing),
		cmocka_unit_test(container_bridges_come_late_and_the_loopback_last),
		cmocka_unit_test(this_host_has_a_loopback_to_offer),
		cmocka_unit_test(no_matching_interface_is_an_error_that_names_what_there_is),
		cmocka_unit_test(socket_addresses_go_there_and_back),
		cmocka_unit_test(unix_addresses_are_abstract_and_fit),
		cmocka_unit_test(names_resolve_or_the_error_names_them),
		cmocka_unit_test(odd_meeting_points_are_refused),
		cmocka_unit_test(addresses_are_read_as_they_were_written),
	};

	return cmocka_run_group_tests(tests, quiet, NULL);
}
