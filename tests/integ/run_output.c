/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks print under `taut run`, and what they find in their environment. */
#include "run_taut.h"

static int count(const char *text, const char *word)
{
	int n = 0;

	for (; (text = strstr(text, word)); text += strlen(word))
		n++;
	return n;
}

static int count_char(const char *text, char c)
{
	int n = 0;

	for (; *text; text++)
		n += *text == c;
	return n;
}

/* Each rank writes its lines in small pieces. */
static void lines_do_not_mix(void)
{
	struct ran *r =
		TAUT("run", "-n", "4", "sh", "-c",
		     "for i in 1 2 3 4 5 6 7 8; do printf a; printf b; printf c; sleep 0; echo d$TAUT_RANK; done");

	CHECK(r->code == 0);
	for (int rank = 0; rank < 4; rank++) {
		char line[16];

		snprintf(line, sizeof(line), "abcd%d\n", rank);
		CHECK(count(r->out, line) == 8);
	}
	CHECK(strlen(r->out) == 4u * 8u * 6u);
}

/* The lines of @rank, in their order. */
static const char *lines_of(const char *text, int rank)
{
	static char lines[OUTPUT_MAX];
	char tag[16];

	lines[0] = '\0';
	snprintf(tag, sizeof(tag), "[%d] ", rank);
	for (const char *end; (end = strchr(text, '\n')); text = end + 1)
		if (!strncmp(text, tag, strlen(tag)))
			strncat(lines, text, (size_t)(end - text) + 1);
	return lines;
}

static void streams_stay_apart_and_lines_get_their_rank(void)
{
	struct ran *r = TAUT("run", "-n", "2", "--prefix", "sh", "-c", "echo out; echo err >&2; printf 'a\\n\\nlast'");

	CHECK(r->code == 0);
	CHECK(!strcmp(lines_of(r->out, 0), "[0] out\n[0] a\n[0] \n[0] last\n"));
	CHECK(!strcmp(lines_of(r->out, 1), "[1] out\n[1] a\n[1] \n[1] last\n"));
	CHECK(count(r->err, "[0] err\n") == 1 && count(r->err, "[1] err\n") == 1);
	CHECK(count(r->out, "err") == 0);
}

static void without_prefix_bytes_stay_as_they_are(void)
{
	CHECK(!strcmp(TAUT("run", "-n", "3", "printf", "x")->out, "xxx"));
	CHECK(!strcmp(TAUT("run", "-n", "1", "printf", "x\\r")->out, "x\r"));
}

/* 300 KB without a line end, from each of two ranks. */
static void a_long_line_arrives_whole_in_bytes(void)
{
	struct ran *r = TAUT("run", "-n", "2", "sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x; echo");

	CHECK(r->code == 0 && strlen(r->out) == 600002);
	r = TAUT("run", "-n", "2", "--prefix", "sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x; echo");
	CHECK(r->code == 0 && count(r->out, "[0] ") == 1 && count(r->out, "[1] ") == 1);
	CHECK(count_char(r->out, 'x') == 600000);
}

static void a_reader_that_leaves_ends_the_writers(void)
{
	static char script[1024];

	snprintf(script, sizeof(script), "%s run -n 2 yes | head -n 3", taut_command());
	CHECK(system(script) == 0);
}

static void only_rank_0_reads(void)
{
	static char script[1024];
	int out = output_file(), saved = dup(1);
	static char text[OUTPUT_MAX];

	snprintf(script, sizeof(script), "echo words | %s run -n 3 --prefix cat", taut_command());
	fflush(stdout);
	dup2(out, 1);
	CHECK(system(script) == 0);
	dup2(saved, 1);
	output_text(out, text);
	CHECK(!strcmp(text, "[0] words\n"));
}

static void closed_streams_do_no_harm(void)
{
	static char script[1024];

	snprintf(script, sizeof(script), "%s run -n 2 sh -c 'cat; echo x; echo y >&2' <&- >&- 2>&-", taut_command());
	CHECK(system(script) == 0);
	snprintf(script, sizeof(script), "%s bench barrier --ranks 2 --time 0.01 <&- >&- 2>&-", taut_command());
	CHECK(system(script) == 0);
	snprintf(script, sizeof(script), "test \"$(%s run -n 2 sh -c 'cat; echo x' <&- 2>&-)\" = \"$(printf 'x\\nx')\"",
		 taut_command());
	CHECK(system(script) == 0);
}

static void a_full_disk_is_a_failure(void)
{
	static char script[1024];

	snprintf(script, sizeof(script), "%s run -n 2 echo words >/dev/full 2>/dev/null", taut_command());
	CHECK(WEXITSTATUS(system(script)) == 1);
	snprintf(script, sizeof(script), "%s bench barrier --ranks 2 --time 0.01 >/dev/full 2>/dev/null",
		 taut_command());
	CHECK(WEXITSTATUS(system(script)) == 1);
}

static void ranks_know_who_they_are(void)
{
	struct ran *r = TAUT("run", "-n", "3", "--env", "A=b c", "sh", "-c",
			     "echo $TAUT_RANK/$TAUT_SIZE $TAUT_LOCAL_RANK/$TAUT_LOCAL_SIZE $RANK/$WORLD_SIZE "
			     "$LOCAL_RANK/$LOCAL_WORLD_SIZE $A ${#TAUT_SECRET} ${#TAUT_RENDEZVOUS}.");

	CHECK(count(r->out, "0/3 0/3 0/3 0/3 b c 64 50.\n") == 1);
	CHECK(count(r->out, "1/3 1/3 1/3 1/3 b c 64 50.\n") == 1);
	CHECK(count(r->out, "2/3 2/3 2/3 2/3 b c 64 50.\n") == 1);
}

static void an_outer_launcher_keeps_its_variables(void)
{
	struct ran *r = TAUT("run", "-n", "2", "--env", "RANK=7", "--env", "WORLD_SIZE=8", "--env", "TAUT_SECRET=mine",
			     "--env", "TAUT_RANK=9", "--env", "TAUT_SIZE=x", "sh", "-c",
			     "echo $TAUT_RANK/$TAUT_SIZE $RANK/$WORLD_SIZE $TAUT_SECRET");

	CHECK(count(r->out, "0/2 7/8 mine\n") == 1 && count(r->out, "1/2 7/8 mine\n") == 1);
}

int main(void)
{
	lines_do_not_mix();
	streams_stay_apart_and_lines_get_their_rank();
	without_prefix_bytes_stay_as_they_are();
	a_long_line_arrives_whole_in_bytes();
	a_reader_that_leaves_ends_the_writers();
	only_rank_0_reads();
	closed_streams_do_no_harm();
	a_full_disk_is_a_failure();
	ranks_know_who_they_are();
	an_outer_launcher_keeps_its_variables();
	return 0;
}
