/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"
#include "base/mem.h"

static char lines[4096];	  /* what was logged */
static int levels[LOG_DEBUG + 1]; /* how many at each level */

static void keep_line(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	size_t len = strlen(lines);

	(void)module;
	(void)ctx;
	levels[level]++;
	snprintf(lines + len, sizeof(lines) - len, "%s\n", line);
}

static char path[64];

/* Every test: no variable of ours, an empty settings file. */
static int setup(void **state)
{
	static char *const empty[] = { NULL };

	(void)state;
	environ = (char **)empty;
	snprintf(path, sizeof(path), "/tmp/taut-test-config-%d", (int)getpid());
	unlink(path);
	fclose(fopen(path, "w"));
	setenv("TAUT_CONFIG", path, 1);
	lines[0] = '\0';
	memset(levels, 0, sizeof(levels));
	log_set_sink(keep_line, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mem_fail_from(0);
	log_set_sink(NULL, NULL);
	unlink(path);
	return 0;
}

static void write_file(const char *text)
{
	FILE *f = fopen(path, "w");

	fputs(text, f);
	fclose(f);
}

static void assert_fails_with(const char *part)
{
	struct config cfg;

	assert_int_equal(config_load(&cfg), TAUT_ERR_CONFIG);
	if (!strstr(taut_error_message(), part))
		fail_msg("\"%s\" does not say \"%s\"", taut_error_message(), part);
}

static const struct setting_value *describe(const char *name)
{
	static struct setting_value v;

	for (size_t i = 0; i < config_count(); i++) {
		enum taut_status st = config_describe(i, &v);

		if (!strcmp(v.setting->name, name)) {
			assert_int_equal(st, TAUT_OK);
			return &v;
		}
	}
	fail_msg("no setting %s", name);
	return NULL;
}

static void defaults_are_those_of_the_table(void **state)
{
	struct config cfg;

	(void)state;
	assert_int_equal(config_load(&cfg), TAUT_OK);
	assert_int_equal(cfg.log_level, LOG_WARN);
	assert_int_equal(cfg.rank, -1);
	assert_int_equal(cfg.slot_bytes, 512 << 10);
	assert_string_equal(cfg.wire, "auto");
	assert_string_equal(cfg.secret, "");
	assert_string_equal(cfg.p2p_level, "");
	assert_string_equal(cfg.topo_file, "");
	assert_int_equal(cfg.strict, 0);
	assert_string_equal(describe("TAUT_SLOT_BYTES")->value, "512K");
	assert_string_equal(describe("TAUT_SLOT_BYTES")->source, "default");
	assert_string_equal(describe("TAUT_SLOT_BYTES")->setting->limits, "4K to 64M");
	config_cleanup(&cfg);
}

static void the_own_name_wins_over_the_alias_and_both_over_the_file(void **state)
{
	struct config cfg;

	(void)state;
	write_file("# a comment\n\n  TAUT_SLOT_BYTES = 8K \r\nNCCL_MAX_NCHANNELS=3\nTAUT_SLOTS=4\n");
	setenv("NCCL_BUFFSIZE", "1048576", 1);
	setenv("TAUT_SLOTS", "", 1); /* empty is unset */
	assert_int_equal(config_load(&cfg), TAUT_OK);
	assert_int_equal(cfg.slot_bytes, 1 << 20);
	assert_int_equal(cfg.channels, 3);
	assert_int_equal(cfg.slots, 4);
	config_cleanup(&cfg);
	assert_string_equal(describe("TAUT_SLOT_BYTES")->source, "environment (NCCL_BUFFSIZE)");
	setenv("TAUT_SLOT_BYTES", "64k", 1);
	assert_string_equal(describe("TAUT_SLOT_BYTES")->value, "64K");
	assert_string_equal(describe("TAUT_SLOT_BYTES")->source, "environment (TAUT_SLOT_BYTES)");
	assert_non_null(strstr(describe("TAUT_SLOTS")->source, ":5"));
}

static void a_bad_value_names_variable_value_limits_and_doc(void **state)
{
	(void)state;
	setenv("TAUT_SLOTS", "65", 1);
	assert_fails_with("TAUT_SLOTS=65 (environment): expected a number from 1 to 64. Slots of");
	setenv("TAUT_SLOTS", "4x", 1);
	assert_fails_with("TAUT_SLOTS=4x");
	setenv("TAUT_SLOTS", " 4", 1);
	assert_fails_with("TAUT_SLOTS= 4");
	setenv("TAUT_SLOTS", "99999999999999999999", 1);
	assert_fails_with("TAUT_SLOTS=99999999999999999999");
	unsetenv("TAUT_SLOTS");
	setenv("TAUT_LOG", "loud", 1);
	assert_fails_with("expected one of none|err|warn|info|debug");
	unsetenv("TAUT_LOG");
	setenv("TAUT_P2P_LEVEL", "DIS", 1);
	assert_fails_with("TAUT_P2P_LEVEL=DIS (environment): expected one of LOC|NVL|");
	unsetenv("TAUT_P2P_LEVEL");
	setenv("TAUT_NET_GDR_LEVEL", "0x3", 1);
	assert_fails_with("TAUT_NET_GDR_LEVEL=0x3");
	unsetenv("TAUT_NET_GDR_LEVEL");
	write_file("\nTAUT_SLOT_BYTES=1K\n");
	assert_fails_with(":2): expected a size (K, M, G) from 4K to 64M");
}

static void sizes_take_suffixes(void **state)
{
	static const struct {
		const char *text;
		size_t bytes;
	} good[] = { { "4096", 4096 },	  { "4K", 4096 },     { "4k", 4096 },	 { "1M", 1 << 20 },
		     { "1MiB", 1 << 20 }, { "1MB", 1 << 20 }, { "8192B", 8192 }, { "64m", 64 << 20 } };
	static const char *const bad[] = { "",
					   "K",
					   "-4K",
					   "4KK",
					   "4T",
					   "+4K",
					   "1G",
					   "0x1000",
					   "4 K",
					   "4Ki B",
					   "9223372036854775807G",
					   "99999999999999999999" };
	struct config cfg;

	(void)state;
	assert_int_equal(config_defaults(&cfg), TAUT_OK);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(config_set(&cfg, "TAUT_SLOT_BYTES", good[i].text), TAUT_OK);
		assert_int_equal(cfg.slot_bytes, good[i].bytes);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(config_set(&cfg, "TAUT_SLOT_BYTES", bad[i]), TAUT_ERR_CONFIG);
	assert_int_equal(cfg.slot_bytes, 64 << 20);
	config_cleanup(&cfg);
}

static void nccl_values_are_put_in_tauts_words(void **state)
{
	static const struct {
		const char *name, *value, *ours, *as;
	} cases[] = {
		{ "NCCL_DEBUG", "VERSION", "TAUT_LOG", "warn" },
		{ "NCCL_DEBUG", "info", "TAUT_LOG", "info" },
		{ "NCCL_DEBUG", "TRACE", "TAUT_LOG", "debug" },
		{ "NCCL_DEBUG", "ABORT", "TAUT_LOG", "warn" },
		{ "NCCL_DEBUG_SUBSYS", "INIT,NET,COLL,NVLS", "TAUT_LOG_SUBSYS", "comm,wire" },
		{ "NCCL_DEBUG_SUBSYS", "^GRAPH,TUNING", "TAUT_LOG_SUBSYS", "^topo,sched" },
		{ "NCCL_DEBUG_SUBSYS", "SHM,P2P,REG,NET", "TAUT_LOG_SUBSYS", "wire,cuda" },
		{ "NCCL_DEBUG_SUBSYS", "^P2P", "TAUT_LOG_SUBSYS", "^wire,cuda" },
		{ "NCCL_DEBUG_SUBSYS", "ALLOC_HOST,DESTROY", "TAUT_LOG_SUBSYS", "base,comm" },
		{ "NCCL_PROTO", "Simple", "TAUT_PROTO", "bulk" },
		{ "NCCL_PROTO", "LL,LL128,SIMPLE", "TAUT_PROTO", "ll,bulk" },
		{ "NCCL_PROTO", "^LL128", "TAUT_PROTO", "" },
		{ "NCCL_PROTO", "^LL128,Simple", "TAUT_PROTO", "^bulk" },
		{ "NCCL_PROTO", "allreduce:^LL128;broadcast:LL", "TAUT_PROTO", "broadcast:ll" },
		{ "NCCL_ALGO", "Tree,Ring,NVLS", "TAUT_ALGO", "tree,ring" },
		{ "NCCL_ALGO", "NVLSTree", "TAUT_ALGO", "" },
		{ "NCCL_ALGO", "allreduce:Tree,CollnetDirect;reducescatter:Ring", "TAUT_ALGO",
		  "all_reduce:tree;reduce_scatter:ring" },
		{ "NCCL_SOCKET_FAMILY", "af_inet6", "TAUT_SOCKET_FAMILY", "AF_INET6" },
		{ "NCCL_SOCKET_IFNAME", "^docker,lo", "TAUT_SOCKET_IFNAME", "^docker,lo" },
		{ "NCCL_MAX_NCHANNELS", "200", "TAUT_CHANNELS", "64" },
		{ "NCCL_TOPO_FILE", "/etc/topo.xml", "TAUT_TOPO_FILE", "/etc/topo.xml" },
		{ "NCCL_TOPO_DUMP_FILE", "dump.xml", "TAUT_TOPO_DUMP_FILE", "dump.xml" },
		{ "NCCL_P2P_DISABLE", "1", "TAUT_P2P_DISABLE", "1" },
		{ "NCCL_P2P_LEVEL", "PHB", "TAUT_P2P_LEVEL", "PHB" },
		{ "NCCL_NET_GDR_LEVEL", "3", "TAUT_NET_GDR_LEVEL", "3" },
		{ "NCCL_NET_GDR_LEVEL", "7", "TAUT_NET_GDR_LEVEL", "5" },
		{ "NCCL_BUFFSIZE", "0x400000", "TAUT_SLOT_BYTES", "4M" },
		{ "NCCL_BUFFSIZE", "4M", "TAUT_SLOT_BYTES", "4M" },
		{ "NCCL_MAX_NCHANNELS", "0x10", "TAUT_CHANNELS", "16" },
		{ "NCCL_MAX_NCHANNELS", "010", "TAUT_CHANNELS", "8" },
		{ "NCCL_SHM_DISABLE", "0x1", "TAUT_SHM_DISABLE", "1" },
		{ "NCCL_HOSTID", "0x10", "TAUT_HOSTID", "0x10" },
		{ "NCCL_IB_DISABLE", "1", "TAUT_IB_DISABLE", "1" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setenv(cases[i].name, cases[i].value, 1);
		assert_string_equal(describe(cases[i].ours)->value, cases[i].as);
		unsetenv(cases[i].name);
	}
}

static void a_bad_value_of_nccl_is_warned_of_once_and_the_default_taken(void **state)
{
	struct config cfg;

	(void)state;
	setenv("NCCL_DEBUG", "loud", 1);
	setenv("NCCL_DEBUG_SUBSYS", "INIT,FOO", 1);
	setenv("NCCL_SHM_DISABLE", "yes", 1);
	setenv("NCCL_ALGO", "allreduce:^one_shot;Tree", 1);
	setenv("NCCL_PROTO", "^foo", 1);
	setenv("NCCL_BUFFSIZE", "0x100", 1);
	setenv("NCCL_P2P_LEVEL", "NEAR", 1);
	setenv("NCCL_NET_GDR_LEVEL", "0x3", 1);
	setenv("NCCL_MAX_NCHANNELS", "200", 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(config_load(&cfg), TAUT_OK);
		assert_int_equal(cfg.log_level, LOG_WARN);
		assert_string_equal(cfg.log_modules, "comm");
		assert_int_equal(cfg.shm_disable, 0);
		assert_int_equal(cfg.slot_bytes, 4 << 10);
		assert_string_equal(cfg.p2p_level, "");
		assert_string_equal(cfg.gdr_level, "3");
		assert_int_equal(cfg.channels, 64);
		assert_string_equal(cfg.algo, "tree");
		assert_string_equal(cfg.proto, "");
		config_cleanup(&cfg);
	}
	assert_int_equal(levels[LOG_WARN], 8);
	assert_string_equal(
		lines, "NCCL_DEBUG=loud (environment): expected one of VERSION|WARN|INFO|ABORT|TRACE: taken as the "
		       "default\n"
		       "NCCL_DEBUG_SUBSYS: NCCL has no \"FOO\": left out\n"
		       "NCCL_SHM_DISABLE=yes (environment): expected a number from 0 to 1: taken as the default\n"
		       "NCCL_BUFFSIZE=0x100 (environment): expected a size (K, M, G) from 4K to 64M: taken as 4096\n"
		       "NCCL_P2P_LEVEL=NEAR (environment): expected one of "
		       "LOC|NVL|NVB|C2C|PIX|PXB|P2C|PXN|PHB|SYS|0|1|2|3|4|5: taken as the default\n"
		       "NCCL_ALGO: NCCL has no \"one_shot\": left out\n"
		       "NCCL_PROTO: NCCL has no \"foo\": left out\n"
		       "NCCL_MAX_NCHANNELS=200 (environment): expected a number from 0 to 64: taken as 64\n");
	setenv("TAUT_SHM_DISABLE", "yes", 1);
	assert_fails_with("TAUT_SHM_DISABLE=yes");
}

static void a_long_alias_value_is_an_error_and_no_overflow(void **state)
{
	char value[4096];

	(void)state;
	memset(value, 'a', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	for (size_t i = 6; i < sizeof(value) - 1; i += 7)
		value[i] = ','; /* a list of one word, which then is short */
	setenv("NCCL_SOCKET_IFNAME", value, 1);
	assert_fails_with("NCCL_SOCKET_IFNAME");
	unsetenv("NCCL_SOCKET_IFNAME");
	memset(value, 'a', sizeof(value) - 1);
	memcpy(value + sizeof(value) - 6, ":Ring", 6);
	setenv("NCCL_ALGO", value, 1);
	assert_fails_with("NCCL_ALGO");
}

static void the_secret_is_never_shown(void **state)
{
	(void)state;
	setenv("TAUT_SECRET", "open sesame", 1);
	assert_string_equal(describe("TAUT_SECRET")->value, "set");
	unsetenv("TAUT_SECRET");
	assert_string_equal(describe("TAUT_SECRET")->value, "");
}

static void a_secret_in_a_file_that_others_can_read_is_refused(void **state)
{
	struct config cfg;

	(void)state;
	write_file("\nTAUT_SECRET=sesame\n");
	chmod(path, 0640);
	assert_fails_with(":2): others can read that file: chmod 600 it");
	assert_null(strstr(taut_error_message(), "sesame"));
	chmod(path, 0600);
	assert_int_equal(config_load(&cfg), TAUT_OK);
	assert_string_equal(cfg.secret, "sesame");
	config_cleanup(&cfg);
}

static void the_users_file_is_read_when_none_is_named(void **state)
{
	char home[96], folder[128], file[160];
	struct config cfg;
	FILE *f;

	(void)state;
	snprintf(home, sizeof(home), "%s-home", path);
	snprintf(folder, sizeof(folder), "%s/.config", home);
	snprintf(file, sizeof(file), "%s/taut.conf", folder);
	unsetenv("TAUT_CONFIG");
	setenv("HOME", home, 1);
	assert_int_equal(config_load(&cfg), TAUT_OK); /* not there: no matter */
	config_cleanup(&cfg);
	assert_int_equal(mkdir(home, 0700) || mkdir(folder, 0700), 0);
	f = fopen(file, "w");
	fputs("TAUT_SLOTS=5", f);
	fclose(f);
	assert_int_equal(config_load(&cfg), TAUT_OK);
	assert_int_equal(cfg.slots, 5);
	config_cleanup(&cfg);
	unlink(file);
	rmdir(folder);
	rmdir(home);
}

static void a_broken_file_is_named_with_the_line(void **state)
{
	(void)state;
	write_file("TAUT_SLOTS=4\nnonsense\n");
	assert_fails_with(":2: \"nonsense\": expected NAME=VALUE");
	write_file("=4\n");
	assert_fails_with(":1: \"\" is no name");
	write_file("A B=4\n");
	assert_fails_with("\"A B\" is no name");
	unlink(path);
	assert_fails_with("TAUT_CONFIG names it");
}

static void a_copy_has_strings_of_its_own(void **state)
{
	struct config a, b;

	(void)state;
	assert_int_equal(config_defaults(&a), TAUT_OK);
	assert_int_equal(config_set(&a, "TAUT_HOSTID", "one"), TAUT_OK);
	assert_int_equal(config_set(&a, "NCCL_NSOCKS_PERTHREAD", "7"), TAUT_OK);
	assert_int_equal(config_copy(&b, &a), TAUT_OK);
	assert_int_equal(config_set(&a, "TAUT_HOSTID", "two"), TAUT_OK);
	assert_string_equal(b.host_id, "one");
	assert_int_equal(b.sockets, 7);
	config_cleanup(&a);
	config_cleanup(&a);
	assert_string_equal(b.host_id, "one");
	config_cleanup(&b);
	config_cleanup(NULL);
}

static void an_unknown_name_is_an_error_when_set_by_hand(void **state)
{
	struct config cfg;

	(void)state;
	assert_int_equal(config_defaults(&cfg), TAUT_OK);
	assert_int_equal(config_set(&cfg, "TAUT_SLOT_BYTE", "4K"), TAUT_ERR_CONFIG);
	assert_non_null(strstr(taut_error_message(), "did you mean TAUT_SLOT_BYTES?"));
	assert_int_equal(config_set(&cfg, "", "4K"), TAUT_ERR_CONFIG);
	config_cleanup(&cfg);
}

static void every_failing_allocation_is_reported(void **state)
{
	struct config cfg, copy;
	enum taut_status st = TAUT_ERR_NOMEM;

	(void)state;
	for (long n = 1; st; n++) {
		mem_fail_from(n);
		st = config_load(&cfg);
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	for (long n = 1; n == 1 || st; n++) {
		mem_fail_from(n);
		st = config_copy(&copy, &cfg);
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	mem_fail_from(0);
	config_cleanup(&cfg);
	config_cleanup(&copy);
}

/* In a process of its own, which has not looked at its environment yet; the exit status is the number of warnings. */
static int warnings_of_another(void)
{
	struct config cfg;
	pid_t pid = fork();
	int status = 0;

	if (!pid) {
		if (config_load(&cfg))
			_exit(99);
		config_check_nccl_names();
		_exit(levels[LOG_WARN]);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Before those that look at the environment of this process. */
static void one_rank_of_a_machine_warns(void **state)
{
	(void)state;
	setenv("TAUT_SLOT_BYTE", "1", 1);
	setenv("NCCL_ALGOO", "ring", 1);
	assert_int_equal(warnings_of_another(), 2);
	setenv("SLURM_LOCALID", "1", 1);
	assert_int_equal(warnings_of_another(), 0);
	setenv("LOCAL_RANK", "0", 1); /* of torchrun in a step of Slurm */
	assert_int_equal(warnings_of_another(), 2);
	setenv("LOCAL_RANK", "3", 1);
	assert_int_equal(warnings_of_another(), 0);
	setenv("TAUT_LOCAL_RANK", "0", 1);
	assert_int_equal(warnings_of_another(), 2);
}

/* Next, as the warning comes once a process. */
static void an_unknown_name_in_the_environment_is_warned_of_once(void **state)
{
	struct config cfg;

	(void)state;
	write_file("TAUT_SLTOS=4\nNCCL_IB_HCA=x\n");
	setenv("TAUT_SLOT_BYTE", "1", 1);
	setenv("TAUT_QQQQQQQQQQQQQQ", "1", 1);
	setenv("TAUT_LOCAL_RANK", "0", 1);
	setenv("TAUT_TEST_NEED", "gpu", 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(config_load(&cfg), TAUT_OK);
		config_cleanup(&cfg);
	}
	assert_non_null(strstr(lines, "TAUT_SLOT_BYTE (environment) is no setting: did you mean TAUT_SLOT_BYTES?"));
	assert_non_null(strstr(lines, "TAUT_QQQQQQQQQQQQQQ (environment) is no setting; taut settings lists them"));
	assert_non_null(strstr(lines, ":1) is no setting: did you mean TAUT_SLOTS?"));
	assert_null(strstr(lines, "LOCAL_RANK"));
	assert_null(strstr(lines, "NEED"));
	assert_null(strstr(lines, "IB_HCA"));
	assert_null(strstr(strstr(lines, "TAUT_SLOT_BYTE ") + 1, "TAUT_SLOT_BYTE "));
}

/* Likewise. */
static void nccls_names_are_looked_at_once(void **state)
{
	(void)state;
	setenv("NCCL_ALGO", "ring", 1);
	setenv("NCCL_ALGOO", "ring", 1);
	setenv("NCCL_QQQQQQQQQQQQQQ", "1", 1);
	setenv("NCCL_NVLS_ENABLE", "0", 1);
	setenv("NCCL_FASTRAK_IFNAME", "eth1", 1);
	setenv("NCCL_ASYNC_ERROR_HANDLING", "1", 1);
	setenv("NCCL_VERSION", "2.28.9", 1);
	setenv("TORCH_NCCL_BLOCKING_WAIT", "1", 1);
	setenv("LOCAL_RANK", "0", 1);
	setenv("SLURM_LOCALID", "3", 1); /* of the step that started the launcher */
	log_now.level = LOG_INFO;
	config_check_nccl_names();
	config_check_nccl_names();
	log_now.level = LOG_WARN;
	assert_non_null(strstr(lines, "NCCL_ALGOO (environment) is no variable of NCCL: did you mean NCCL_ALGO?\n"));
	assert_non_null(strstr(lines, "NCCL_QQQQQQQQQQQQQQ (environment) is no variable of NCCL that taut knows; "));
	assert_non_null(strstr(lines, "NCCL_NVLS_ENABLE (environment) has no effect: taut does not use NVLink SHARP"));
	assert_non_null(strstr(lines, "NCCL_FASTRAK_IFNAME (environment) has no effect: taut loads no plugins\n"));
	assert_null(strstr(lines, "NCCL_ALGO (environment)"));
	assert_null(strstr(lines, "BLOCKING_WAIT"));
	assert_null(strstr(lines, "ASYNC"));
	assert_null(strstr(lines, "VERSION"));
	assert_null(strstr(strstr(lines, "NCCL_ALGOO ") + 1, "NCCL_ALGOO "));
	assert_int_equal(levels[LOG_WARN], 2);
	assert_int_equal(levels[LOG_INFO], 2);
}

static void assert_version(const char *debug, bool wanted)
{
	setenv("NCCL_DEBUG", debug, 1);
	assert_int_equal(config_nccl_version_wanted(), wanted);
	unsetenv("NCCL_DEBUG");
}

static void the_version_is_wanted_where_nccl_prints_it_by_itself(void **state)
{
	(void)state;
	assert_false(config_nccl_version_wanted());
	assert_version("VERSION", true);
	assert_version("version", true);
	assert_version("WARN", true);
	assert_version("INFO", false);
	assert_version("TRACE", false);
	assert_version("", false);
	setenv("TAUT_LOG", "warn", 1); /* it comes first, and knows no version */
	assert_version("VERSION", false);
	unsetenv("TAUT_LOG");
	write_file("NCCL_DEBUG=VERSION\n");
	assert_true(config_nccl_version_wanted());
	assert_version("INFO", false);
	write_file("nonsense\n");
	assert_false(config_nccl_version_wanted());
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_rank_of_a_machine_warns),
		TEST(an_unknown_name_in_the_environment_is_warned_of_once),
		TEST(nccls_names_are_looked_at_once),
		TEST(the_version_is_wanted_where_nccl_prints_it_by_itself),
		TEST(defaults_are_those_of_the_table),
		TEST(the_own_name_wins_over_the_alias_and_both_over_the_file),
		TEST(a_bad_value_names_variable_value_limits_and_doc),
		TEST(sizes_take_suffixes),
		TEST(a_bad_value_of_nccl_is_warned_of_once_and_the_default_taken),
		TEST(nccl_values_are_put_in_tauts_words),
		TEST(a_long_alias_value_is_an_error_and_no_overflow),
		TEST(the_secret_is_never_shown),
		TEST(a_secret_in_a_file_that_others_can_read_is_refused),
		TEST(the_users_file_is_read_when_none_is_named),
		TEST(a_broken_file_is_named_with_the_line),
		TEST(a_copy_has_strings_of_its_own),
		TEST(an_unknown_name_is_an_error_when_set_by_hand),
		TEST(every_failing_allocation_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
