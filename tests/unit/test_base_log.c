/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"

/* What came to standard output and standard error between grab() and release(). */
static struct stream {
	FILE *file;
	int fd, kept, to;
	char text[8192];
} out, err;

static void grab_one(struct stream *s, FILE *file, int fd)
{
	char path[] = "/tmp/taut-test-log-XXXXXX";

	s->file = file;
	s->fd = fd;
	s->to = mkostemp(path, O_APPEND | O_CLOEXEC);
	assert_true(s->to >= 0);
	unlink(path);
	fflush(file);
	s->kept = dup(fd);
	assert_true(s->kept >= 0 && dup2(s->to, fd) == fd);
}

static void release_one(struct stream *s)
{
	ssize_t n;

	fflush(s->file);
	dup2(s->kept, s->fd);
	close(s->kept);
	n = pread(s->to, s->text, sizeof(s->text) - 1, 0);
	close(s->to);
	assert_true(n >= 0);
	s->text[n] = '\0';
}

static void grab(void)
{
	grab_one(&out, stdout, 1);
	grab_one(&err, stderr, 2);
}

static void release(void)
{
	release_one(&out);
	release_one(&err);
}

static void set(const char *level, const char *modules)
{
	struct config cfg;

	assert_int_equal(config_defaults(&cfg), TAUT_OK);
	assert_int_equal(config_set(&cfg, "TAUT_LOG", level), TAUT_OK);
	assert_int_equal(config_set(&cfg, "TAUT_LOG_SUBSYS", modules), TAUT_OK);
	log_init(&cfg);
	config_cleanup(&cfg);
}

static int teardown(void **state)
{
	(void)state;
	log_set_form(LOG_FORM_TAUT);
	log_set_device(0);
	set("warn", "all");
	return 0;
}

static void say_all(void)
{
	log_err(LOG_COMM, "an %s", "error");
	log_warn(LOG_WIRE, "a warning");
	log_info(LOG_COMM, "gpu %d", 3);
	log_debug(LOG_WIRE, "a detail");
}

/* The expected lines, with this process and thread in their heads. */
static const char *expected(const char *pattern)
{
	static char text[2048];
	char host[64] = "";
	size_t at = 0;

	gethostname(host, sizeof(host) - 1);
	text[0] = '\0';
	for (; *pattern; pattern++) {
		int n = (int)strcspn(host, ".");

		if (*pattern == '@')
			n = snprintf(text + at, sizeof(text) - at, "%.*s:%d:%ld", n, host, (int)getpid(),
				     (long)syscall(SYS_gettid));
		else if (*pattern == '#')
			n = snprintf(text + at, sizeof(text) - at, "%s:%d:%ld", host, (int)getpid(),
				     (long)syscall(SYS_gettid));
		else
			n = snprintf(text + at, sizeof(text) - at, "%c", *pattern);
		at += (size_t)n;
	}
	return text;
}

static const char tauts_lines[] = "# taut ERR an error\n# taut WARN a warning\n# taut INFO gpu 3\n"
				  "# taut DEBUG a detail\n";
static const char nccls_lines[] = "\n@ [5] NCCL WARN an error\n\n@ [5] NCCL WARN a warning\n@ [5] NCCL INFO gpu 3\n"
				  "@ [5] NCCL TRACE a detail\n";

static void tauts_lines_go_to_standard_error(void **state)
{
	(void)state;
	set("debug", "all");
	log_set_device(5);
	grab();
	say_all();
	release();
	assert_string_equal(err.text, expected(tauts_lines));
	assert_string_equal(out.text, "");
}

/* As where NCCL_DEBUG asks for lines; the level is what set() says. */
static void set_nccl_form(void)
{
	setenv("NCCL_DEBUG", "INFO", 1);
	log_set_form(LOG_FORM_NCCL);
	unsetenv("NCCL_DEBUG");
}

static void nccls_lines_that_nobody_asked_for_are_no_output(void **state)
{
	(void)state;
	unsetenv("NCCL_DEBUG");
	set("warn", "all");
	log_set_form(LOG_FORM_NCCL);
	grab();
	say_all();
	release();
	assert_string_equal(out.text, "");
	assert_string_equal(err.text, expected("\n@ [0] NCCL WARN an error\n\n@ [0] NCCL WARN a warning\n"));
}

static void nccls_lines_go_to_standard_output(void **state)
{
	(void)state;
	set("debug", "all");
	set_nccl_form();
	log_set_device(5);
	grab();
	say_all();
	release();
	assert_string_equal(out.text, expected(nccls_lines));
	assert_string_equal(err.text, "");
}

static void *say_one(void *arg)
{
	(void)arg;
	log_info(LOG_COMM, "from a thread of its own");
	return NULL;
}

static void the_device_is_of_one_thread(void **state)
{
	pthread_t thread;

	(void)state;
	set("info", "all");
	set_nccl_form();
	log_set_device(5);
	grab();
	assert_int_equal(pthread_create(&thread, NULL, say_one, NULL), 0);
	pthread_join(thread, NULL);
	release();
	assert_non_null(strstr(out.text, " [0] NCCL INFO from a thread of its own\n"));
}

static void a_plain_line_has_no_head_and_no_level(void **state)
{
	(void)state;
	set("none", "all");
	set_nccl_form();
	grab();
	say_all();
	log_plain("NCCL version 2.28.9");
	release();
	assert_string_equal(out.text, "NCCL version 2.28.9\n");
}

static void rooms_choose_lines(void **state)
{
	(void)state;
	set("debug", "wire");
	grab();
	say_all();
	release();
	assert_string_equal(err.text, expected("# taut WARN a warning\n# taut DEBUG a detail\n"));
	set("debug", "^wire");
	grab();
	say_all();
	release();
	assert_string_equal(err.text, expected("# taut ERR an error\n# taut INFO gpu 3\n"));
}

static void rooms_do_not_choose_among_nccls_warnings(void **state)
{
	(void)state;
	set("debug", "topo");
	set_nccl_form();
	grab();
	say_all();
	release();
	assert_string_equal(out.text, expected("\n@ [0] NCCL WARN an error\n\n@ [0] NCCL WARN a warning\n"));
	set("err", "topo");
	grab();
	say_all();
	release();
	assert_string_equal(out.text, expected("\n@ [0] NCCL WARN an error\n"));
	log_set_form(LOG_FORM_TAUT);
	grab();
	say_all();
	release();
	assert_string_equal(err.text, "");
}

static void every_room_has_a_name(void **state)
{
	static const struct {
		const char *name;
		unsigned bits;
	} rooms[] = { { "base", LOG_BASE },
		      { "topo", LOG_TOPO },
		      { "sched", LOG_SCHED },
		      { "boot", LOG_BOOT },
		      { "wire", LOG_WIRE },
		      { "exec", LOG_EXEC },
		      { "cuda", LOG_CUDA },
		      { "comm", LOG_COMM },
		      { "tool", LOG_TOOL },
		      { "CUDA", LOG_CUDA },
		      { "wire,cuda", LOG_WIRE | LOG_CUDA },
		      { "all", ~0u },
		      { "^cuda", ~(unsigned)LOG_CUDA } };

	(void)state;
	grab();
	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		set("warn", rooms[i].name);
		assert_int_equal(log_now.modules, rooms[i].bits);
	}
	release();
	assert_string_equal(err.text, "");
	grab();
	set("warn", "attic,topo,cellar");
	release();
	assert_int_equal(log_now.modules, LOG_TOPO);
	assert_string_equal(err.text, "taut: TAUT_LOG_SUBSYS: no room is called \"attic\": expected base, topo, sched, "
				      "boot, wire, exec, cuda, comm, tool or all\n");
}

static void patterns_of_file_names_are_filled_in(void **state)
{
	char host[64] = "", name[128], want[128];

	(void)state;
	gethostname(host, sizeof(host) - 1);
	snprintf(want, sizeof(want), "log.%s.%d.%%x", host, (int)getpid());
	log_expand(name, sizeof(name), "log.%h.%p.%x");
	assert_string_equal(name, want);
	log_expand(name, 4, "%p%p%p%p");
	assert_int_equal(strlen(name), 3);
}

/* --- last: a file that is open stays the log of the process --- */

static void set_file(const char *path)
{
	struct config cfg;

	assert_int_equal(config_defaults(&cfg), TAUT_OK);
	assert_int_equal(config_set(&cfg, "TAUT_LOG", "debug"), TAUT_OK);
	assert_int_equal(config_set(&cfg, "TAUT_LOG_FILE", path), TAUT_OK);
	log_init(&cfg);
	config_cleanup(&cfg);
}

static void a_file_that_cannot_be_written_is_told_of(void **state)
{
	(void)state;
	set_nccl_form();
	grab();
	set_file("/proc/no/such/log");
	set_file("/proc/no/such/log"); /* told once */
	log_info(LOG_COMM, "gpu 3");
	release();
	assert_string_equal(err.text, "taut: cannot open log file /proc/no/such/log: No such file or directory: "
				      "logging to standard output\n");
	assert_string_equal(out.text, expected("@ [0] NCCL INFO gpu 3\n"));
}

static void a_file_takes_lines_of_both_forms(void **state)
{
	char path[64], name[128], text[4096], want[4096];
	FILE *f;
	size_t n;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/taut-test-log-%%h-%%p");
	log_expand(name, sizeof(name), path);
	unlink(name);
	grab();
	set_file(path);
	say_all();
	set_nccl_form();
	log_set_device(5);
	say_all();
	log_plain("NCCL version 2.28.9");
	release();
	f = fopen(name, "r");
	assert_non_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	fclose(f);
	unlink(name);
	n = (size_t)snprintf(want, sizeof(want), "%s", expected(tauts_lines));
	n += (size_t)snprintf(want + n, sizeof(want) - n, "%s", expected(nccls_lines));
	snprintf(want + n, sizeof(want) - n, "NCCL version 2.28.9\n");
	assert_string_equal(text, want);
	assert_string_equal(out.text, "");
	assert_string_equal(err.text, "");
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(tauts_lines_go_to_standard_error),		TEST(nccls_lines_that_nobody_asked_for_are_no_output),
		TEST(nccls_lines_go_to_standard_output),	TEST(the_device_is_of_one_thread),
		TEST(a_plain_line_has_no_head_and_no_level),	TEST(rooms_choose_lines),
		TEST(rooms_do_not_choose_among_nccls_warnings), TEST(every_room_has_a_name),
		TEST(patterns_of_file_names_are_filled_in),	TEST(a_file_that_cannot_be_written_is_told_of),
		TEST(a_file_takes_lines_of_both_forms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
