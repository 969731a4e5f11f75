/* SPDX-License-Identifier: Apache-2.0 */
/* `taut tune`: measures this machine, or the machines of a job, and writes the tuning file. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "bench_coll.h"
#include "boot/boot.h"
#include "cmd.h"
#include "comm/comm.h"
#include "tune_fit.h"
#include "tune_measure.h"
#include "tune_report.h"

#define NAME "taut tune"

enum { CASES_MAX = 32, RANKS_MAX = 1024, GRACE_MS = 3000 };
_Static_assert(CASES_MAX / 2 == 16 && RANKS_MAX == 1024, "what take_option() says");

static const char help[] =
	"usage: taut tune [OPTION...]\n"
	"\n"
	"Measures how fast the ways of doing each collective are on this machine, fits the cost\n"
	"model to it, and writes both to the tuning file that the library reads when a group is\n"
	"made. Takes about a minute. Started by a launcher (taut run, mpirun, srun), the ranks of\n"
	"the job are measured instead, with the network between them.\n"
	"\n"
	"  -n, --ranks LIST  numbers of ranks, as 2,4,8; default: 2, 4, 8 ... up to the processors\n"
	"  -w, --wire WIRE   auto (shared memory), tcp (over loopback), or all; default: all\n"
	"  -c, --collectives LIST  measure only these, as all_reduce,broadcast\n"
	"  -t, --time S      seconds to measure; default: 45, with --quick 6\n"
	"  -q, --quick       fewer sizes, each once\n"
	"  -o, --out FILE    write FILE; default: TAUT_TUNE_FILE, else the file in the cache folder\n"
	"      --json        print the result as JSON\n"
	"  -h, --help        this text\n"
	"\n"
	"Lines of the file for what was not measured are kept. Quiet machines give good files: end\n"
	"other work first.\n"
	"\n"
	"Exit status: 0, 1 when something failed, 2 usage.\n";

static const struct option options[] = {
	{ "ranks", required_argument, NULL, 'n' },
	{ "wire", required_argument, NULL, 'w' },
	{ "collectives", required_argument, NULL, 'c' },
	{ "time", required_argument, NULL, 't' },
	{ "quick", no_argument, NULL, 'q' },
	{ "out", required_argument, NULL, 'o' },
	{ "json", no_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

struct tune_opts {
	int ranks[CASES_MAX], nranks;
	unsigned colls; /* bits */
	double seconds; /* 0: not given */
	bool shm, tcp, quick, json;
	const char *out;
};

/* --- Options. --- */

static int processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) || CPU_COUNT(&set) < 1 ? 1 : CPU_COUNT(&set);
}

static void default_ranks(struct tune_opts *o)
{
	int most = processors();

	most = most < 2 ? 2 : most > RANKS_MAX ? RANKS_MAX : most;
	for (int n = 2; n <= most; n *= 2)
		o->ranks[o->nranks++] = n;
	if (o->ranks[o->nranks - 1] != most)
		o->ranks[o->nranks++] = most;
}

static bool parse_ranks(struct tune_opts *o, const char *text)
{
	o->nranks = 0;
	for (;;) {
		char *end;
		long n;

		errno = 0;
		n = strtol(text, &end, 10);
		if (end == text || errno || n < 2 || n > RANKS_MAX || o->nranks == CASES_MAX / 2)
			return false;
		o->ranks[o->nranks++] = (int)n;
		if (!*end)
			return true;
		if (*end != ',')
			return false;
		text = end + 1;
	}
}

static bool parse_wire(struct tune_opts *o, const char *text)
{
	o->shm = !strcmp(text, "auto") || !strcmp(text, "all");
	o->tcp = !strcmp(text, "tcp") || !strcmp(text, "all");
	return o->shm || o->tcp;
}

/* The collective that @text names up to its end or a comma; -1: none. */
static int find_coll(const char *text)
{
	char word[64];
	const struct bench_coll *c;

	snprintf(word, sizeof(word), "%.*s", (int)strcspn(text, ","), text);
	c = bench_coll_find(word);
	for (int i = 0; c && i < COLL_COUNT; i++)
		if (!strcmp(sched_coll_name((enum sched_coll)i), c->name))
			return i;
	return -1;
}

static bool parse_colls(struct tune_opts *o, const char *text)
{
	o->colls = 0;
	for (;;) {
		int coll = find_coll(text);

		if (coll < 0)
			return false;
		o->colls |= 1u << coll;
		text += strcspn(text, ",");
		if (!*text)
			return true;
		text++;
	}
}

static bool parse_seconds(struct tune_opts *o, const char *text)
{
	char *end;

	o->seconds = strtod(text, &end);
	return end != text && !*end && o->seconds > 0 && o->seconds <= 86400;
}

/* A sentence about an option's argument is bad, NULL when it is good. */
static const char *take_option(struct tune_opts *o, int c, const char *arg)
{
	switch (c) {
	case 'n':
		return parse_ranks(o, arg) ? NULL : "want at most 16 numbers from 2 to 1024, as in 2,4,8";
	case 'w':
		return parse_wire(o, arg) ? NULL : "want auto, tcp or all";
	case 'c':
		return parse_colls(o, arg) ? NULL : "want collectives, as in all_reduce,broadcast";
	case 't':
		return parse_seconds(o, arg) ? NULL : "want seconds, more than 0";
	case 'q':
		o->quick = true;
		return NULL;
	case 'j':
		o->json = true;
		return NULL;
	default:
		o->out = arg;
		return NULL;
	}
}

/* 0 to go on, else the exit status + 1. */
static int parse(struct tune_opts *o, int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "n:w:c:t:qo:h", options, NULL)) != -1) {
		const char *bad;

		if (c == 'h') {
			fputs(help, stdout);
			return 1 + finish_output(NAME);
		}
		if (c == '?')
			return 1 + usage_error(NAME, "bad command line");
		bad = take_option(o, c, optarg);
		if (bad)
			return 1 + usage_error(NAME, "-%c %s: %s", c, optarg, bad);
	}
	if (optind < argc)
		return 1 + usage_error(NAME, "\"%s\" is too much", argv[optind]);
	return 0;
}

/* --- What the ranks do. --- */

/* One group to measure. */
struct job_case {
	struct tune_case c;
	struct tune_points points;
	const char *wire, *name;
	double seconds;
};
struct job {
	const struct tune_opts *opts;
	struct taut_comm *control;
	int rank;
	struct tune_sizes sizes;
	struct job_case cases[CASES_MAX];
	int ncases;
	bool launched, bind;
	char path[PATH_MAX];
	struct tune *old; /* rank 0: the file as it was */
	uint64_t said_ns;
	double part, whole; /* seconds before this case, and of all */
	double now;	    /* of this case */
};

static void say_progress(void *ctx, const struct tune_point *p, double part)
{
	struct job *j = ctx;

	if (!isatty(2) || now_ns() - j->said_ns < 100000000u)
		return;
	j->said_ns = now_ns();
	fprintf(stderr, "\r\033[K[%3.0f %%] %s, %d ranks%s, %zu bytes: %s %s",
		100 * (j->part + part * j->now) / j->whole, sched_coll_name(p->coll), p->at->nranks,
		p->at->machine.one_wire ? " over tcp" : "", p->bytes, p->way.algo->name,
		p->way.algo->mapped ? "mapped" : sched_proto_name(p->way.proto));
}

static void clear_progress(void)
{
	if (isatty(2))
		fputs("\r\033[K", stderr);
}

static void add_case(struct job *j, int nranks, bool tcp)
{
	struct job_case *jc = &j->cases[j->ncases++];

	*jc = (struct job_case){ .c = { .nranks = nranks, .nodes = 1, .mapped = !tcp },
				 .wire = tcp ? "tcp" : "auto",
				 .name = tcp ? "tcp" : "shm" };
	cost_machine_default(&jc->c.machine);
	jc->c.machine.one_wire = tcp;
}

/* Over TCP loopback two rank counts say enough: its work is the same for all pairs. */
static void local_cases(struct job *j)
{
	const struct tune_opts *o = j->opts;

	for (int i = 0; i < o->nranks && o->shm; i++)
		add_case(j, o->ranks[i], false);
	for (int i = 0; i < o->nranks && i < 2 && o->tcp; i++)
		add_case(j, o->ranks[i], true);
}

/* The group that the launcher started. */
static void launched_case(struct job *j)
{
	struct taut_comm *comm = j->control;
	struct tune_case *c;

	add_case(j, comm->size, comm->machine.one_wire);
	c = &j->cases[0].c;
	c->nodes = boot_nodes(comm->boot);
	c->node_of = c->nodes > 1 ? comm->node_of : NULL;
	c->machine.cores = comm->machine.cores;
	c->machine.one_wire = comm->machine.one_wire;
	c->mapped = c->nodes == 1 && !c->machine.one_wire;
	j->cases[0].wire = NULL;
	j->cases[0].name = c->nodes > 1 ? "the job's wires" : j->cases[0].name;
}

/* The slot size is a setting; what the groups will have is what the control group has. */
static void set_limits(struct job *j)
{
	for (int i = 0; i < j->ncases; i++)
		for (int k = 0; k < 2; k++) {
			j->cases[i].c.machine.link[k].slot_bytes = j->control->machine.link[k].slot_bytes;
			j->cases[i].c.machine.link[k].ll_max = j->control->machine.link[k].ll_max;
		}
}

static void set_effort(struct job *j)
{
	double total = j->opts->quick ? 6 : 45, weights = 0;

	if (j->opts->seconds > 0)
		total = j->opts->seconds;
	j->sizes = j->opts->quick ? (struct tune_sizes){ 8, 2 << 20, 16 } : (struct tune_sizes){ 8, 32 << 20, 4 };
	for (int i = 0; i < j->ncases; i++)
		weights += j->cases[i].c.machine.one_wire ? 1 : 2;
	for (int i = 0; i < j->ncases; i++)
		j->cases[i].seconds = total * (j->cases[i].c.machine.one_wire ? 1 : 2) / weights;
	j->whole = total;
}

static enum taut_status run_case(struct job *j, struct job_case *jc)
{
	struct tune_measure m = { .control = j->control,
				  .sizes = &j->sizes,
				  .wire = jc->wire,
				  .seconds = jc->seconds,
				  .rounds = j->opts->quick ? 1 : 2,
				  .bind = j->bind,
				  .progress = say_progress,
				  .ctx = j };
	enum taut_status st;

	j->now = jc->seconds;
	st = tune_plan(&jc->points, &jc->c, &j->sizes, j->opts->colls);
	if (!st)
		st = tune_measure(&jc->points, &m);
	j->part += jc->seconds;
	return st;
}

/* Rank 0: the points of all cases in one list, for the fit. */
static enum taut_status join_points(struct tune_points *all, const struct job *j)
{
	int n = 0;

	for (int i = 0; i < j->ncases; i++)
		n += j->cases[i].points.n;
	*all = (struct tune_points){ .p = mem_calloc((size_t)n, sizeof(*all->p)), .cap = n };
	if (!all->p)
		return fail(TAUT_ERR_NOMEM, "%d measurements", n);
	for (int i = 0; i < j->ncases; i++) {
		memcpy(all->p + all->n, j->cases[i].points.p, (size_t)j->cases[i].points.n * sizeof(*all->p));
		all->n += j->cases[i].points.n;
	}
	return TAUT_OK;
}

static enum taut_status finish(struct job *j)
{
	struct tune_report r = { .sizes = &j->sizes, .path = j->path };
	struct tune_points all = { 0 };
	enum taut_status st = join_points(&all, j);

	cost_machine_default(&r.machine);
	tune_apply(j->old, &r.machine);
	if (!st)
		st = tune_fit(&r.machine, &r.error, &all);
	clear_progress();
	r.points = &all;
	if (!st)
		st = tune_report_save(&r, j->old);
	if (!st)
		st = j->opts->json ? tune_report_json(&r) : tune_report_text(&r);
	tune_points_free(&all);
	return st;
}

/* A broken file is written anew. */
static enum taut_status find_file(struct job *j)
{
	struct config cfg;
	enum taut_status st = config_load(&cfg);

	if (st)
		return st;
	st = tune_path(j->path, sizeof(j->path), j->opts->out ? j->opts->out : cfg.tune_file);
	config_cleanup(&cfg);
	if (st)
		return st;
	if (!*j->path)
		return fail(TAUT_ERR_CONFIG, "neither XDG_CACHE_HOME nor HOME is set: name the file with --out");
	st = tune_save_check(j->path);
	if (st)
		return st;
	if (!access(j->path, F_OK))
		(void)tune_load(&j->old, j->path);
	return TAUT_OK;
}

static enum taut_status run_ranks(struct job *j)
{
	enum taut_status st;

	j->rank = taut_comm_rank(j->control);
	if (j->launched)
		launched_case(j);
	else
		local_cases(j);
	set_limits(j);
	set_effort(j);
	st = j->rank ? TAUT_OK : find_file(j);
	/* The measured groups read another file, and settings of their own. */
	for (int i = 0; i < j->ncases && !st; i++)
		st = run_case(j, &j->cases[i]);
	if (!st && j->rank == 0)
		st = finish(j);
	else
		clear_progress();
	for (int i = 0; i < j->ncases; i++)
		tune_points_free(&j->cases[i].points);
	tune_free(j->old);
	return st;
}

/* --- Ranks of our own. --- */

struct meeting { /* shared by the processes */
	struct taut_id id;
	int id_pipe[2];
};

/* Rank 0 makes the id and gives every other rank a copy. */
static enum taut_status carry_id(struct meeting *m, int rank, int size)
{
	enum taut_status st;

	close(m->id_pipe[rank ? 1 : 0]);
	if (rank) {
		if (read(m->id_pipe[0], &m->id, sizeof(m->id)) != sizeof(m->id))
			return fail(TAUT_ERR_PEER, "rank 0 ended before it had made the id");
		return TAUT_OK;
	}
	st = taut_id_create(&m->id);
	for (int r = 1; r < size && !st; r++)
		if (write(m->id_pipe[1], &m->id, sizeof(m->id)) != sizeof(m->id))
			st = errno_fail(errno, "cannot hand on the id");
	return st;
}

static int rank_process(struct job *j, struct meeting *m, int rank, int size)
{
	struct taut_comm_opts opts = { .size = sizeof(opts), .name = "control" };
	enum taut_status st;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	st = carry_id(m, rank, size);
	if (!st)
		st = taut_comm_create(&j->control, &m->id, rank, size, &opts);
	if (!st)
		st = run_ranks(j);
	taut_comm_destroy(j->control);
	return st ? EXIT_FAILURE : finish_output(NAME);
}

static void kill_all(const pid_t *pids, int n)
{
	for (int r = 0; r < n; r++)
		if (pids[r] > 0)
			kill(pids[r], SIGKILL);
}

static void note_end(pid_t *pids, int n, pid_t pid, int status)
{
	for (int r = 0; r < n; r++) {
		if (pids[r] != pid)
			continue;
		pids[r] = 0;
		if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
			fprintf(stderr, NAME ": rank %d was ended by signal %d (%s)\n", r, WTERMSIG(status),
				strsignal(WTERMSIG(status)));
	}
}

/* Waits for all; after the first failure the others have a moment. */
static int supervise(pid_t *pids, int n)
{
	uint64_t deadline = 0;
	int result = EXIT_SUCCESS;

	for (int left = n; left;) {
		int status;
		pid_t pid = waitpid(-1, &status, deadline ? WNOHANG : 0);

		if (pid < 0 && errno != EINTR)
			break;
		if (pid <= 0) {
			if (deadline && now_ns() > deadline)
				kill_all(pids, n);
			sleep_ms(2);
			continue;
		}
		note_end(pids, n, pid, status);
		left--;
		if (!status)
			continue;
		result = EXIT_FAILURE;
		deadline = deadline ? deadline : now_ns() + GRACE_MS * UINT64_C(1000000);
	}
	return result;
}

static int start_ranks(struct job *j, struct meeting *m, pid_t *pids, int n)
{
	pid_t self = getpid();

	fflush(NULL);
	for (int r = 0; r < n; r++) {
		pids[r] = fork();
		if (pids[r] == 0) {
			mem_free(pids);
			exit(getppid() == self ? rank_process(j, m, r, n) : EXIT_FAILURE);
		}
		if (pids[r] > 0)
			continue;
		errno_fail(errno, "cannot start rank %d of %d", r, n);
		kill_all(pids, r);
		supervise(pids, r);
		return EXIT_FAILURE;
	}
	close(m->id_pipe[0]);
	close(m->id_pipe[1]);
	return supervise(pids, n);
}

static int run_alone(struct job *j)
{
	struct meeting m;
	int n = 0, rc;
	pid_t *pids;

	for (int i = 0; i < j->opts->nranks; i++)
		n = j->opts->ranks[i] > n ? j->opts->ranks[i] : n;
	j->bind = true;
	pids = mem_calloc((size_t)n, sizeof(*pids));
	if (!pids || pipe(m.id_pipe)) {
		errno_fail(errno, "cannot start %d ranks", n);
		mem_free(pids);
		return EXIT_FAILURE;
	}
	rc = start_ranks(j, &m, pids, n);
	mem_free(pids);
	return rc;
}

static int run_launched(struct job *j)
{
	struct taut_comm_opts opts = { .size = sizeof(opts), .name = "control" };
	enum taut_status st = taut_comm_create_env(&j->control, &opts);

	j->launched = true;
	if (!st)
		st = run_ranks(j);
	taut_comm_destroy(j->control);
	return st ? EXIT_FAILURE : finish_output(NAME);
}

/* Did a launcher start several of us? */
static enum taut_status detect(bool *launched)
{
	struct config cfg;
	struct boot_env env;
	enum taut_status st = config_load(&cfg);

	if (st)
		return st;
	st = boot_env_detect(&env, &cfg);
	*launched = !st && env.size > 1;
	config_cleanup(&cfg);
	return st;
}

int cmd_tune(int argc, char **argv)
{
	struct tune_opts o = { .shm = true, .tcp = true, .colls = ~0u };
	struct job *j;
	bool launched;
	int rc = parse(&o, argc, argv);

	if (rc)
		return rc - 1;
	plain_errors(NAME);
	if (detect(&launched))
		return EXIT_FAILURE;
	if (launched && o.nranks)
		return usage_error(NAME, "--ranks: the launcher has started the ranks");
	if (!o.nranks)
		default_ranks(&o);
	j = mem_calloc(1, sizeof(*j));
	if (!j) {
		fail(TAUT_ERR_NOMEM, "no memory");
		return EXIT_FAILURE;
	}
	j->opts = &o;
	rc = launched ? run_launched(j) : run_alone(j);
	mem_free(j);
	return rc;
}
