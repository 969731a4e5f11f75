/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "boot/boot.h"

static void ignore_line(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)level;
	(void)module;
	(void)line;
	(void)ctx;
}

static int setup(void **state)
{
	static char *const empty[] = { NULL };

	(void)state;
	environ = (char **)empty;
	log_set_sink(ignore_line, NULL);
	return 0;
}

/* "A=1 B=2" */
static void set_env(const char *pairs)
{
	char text[2048], *rest = text;

	setup(NULL);
	snprintf(text, sizeof(text), "%s", pairs);
	for (char *pair = strtok_r(rest, " ", &rest); pair; pair = strtok_r(rest, " ", &rest)) {
		char *value = strchr(pair, '=');

		*value++ = '\0';
		setenv(pair, value, 1);
	}
}

static enum taut_status detect(struct boot_env *env, const char *pairs)
{
	struct config cfg;
	enum taut_status st;

	set_env(pairs);
	setenv("TAUT_CONFIG", "/dev/null", 1);
	assert_int_equal(config_load(&cfg), TAUT_OK);
	st = boot_env_detect(env, &cfg);
	config_cleanup(&cfg);
	return st;
}

static void every_launcher_is_known(void **state)
{
	char user[32];
	static const struct {
		const char *vars, *launcher;
		int rank, size, local_rank, local_size;
		const char *rendezvous; /* %u: user id */
	} cases[] = {
		{ "", "single", 0, 1, 0, 1, "" },
		{ "TAUT_RANK=1 TAUT_SIZE=2 TAUT_RENDEZVOUS=h:1", "manual", 1, 2, -1, -1, "h:1" },
		{ "TAUT_RANK=0 TAUT_SIZE=1", "manual", 0, 1, -1, -1, "" },
		{ "TAUT_RANK=1 TAUT_SIZE=2 TAUT_LOCAL_RANK=1 TAUT_LOCAL_SIZE=2 TAUT_RENDEZVOUS=abstract:taut-run-x "
		  "RANK=7 WORLD_SIZE=8 SLURM_PROCID=3",
		  "run", 1, 2, 1, 2, "abstract:taut-run-x" },
		{ "RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=host MASTER_PORT=29500", "torchrun",
		  3, 8, 1, 2, "host:29501" },
		{ "RANK=3 WORLD_SIZE=8 MASTER_ADDR=fe80::1 MASTER_PORT=29500", "torchrun", 3, 8, -1, -1,
		  "[fe80::1]:29501" },
		{ "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=host MASTER_PORT=29500 "
		  "TORCHELASTIC_RUN_ID=ab TORCHELASTIC_RESTART_COUNT=0",
		  "torchrun", 1, 2, 1, 2, "abstract:taut-torchrun-%s-29500-0-ab" },
		{ "RANK=3 WORLD_SIZE=8 TAUT_RENDEZVOUS=file:/tmp/x", "torchrun", 3, 8, -1, -1, "file:/tmp/x" },
		{ "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 "
		  "OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=77 OMPI_MCA_ess_base_jobid=77 PMIX_RANK=1",
		  "openmpi", 1, 2, 1, 2, "abstract:taut-openmpi-%s-77-77" },
		{ "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1 SLURM_JOB_ID=5 SLURM_STEP_ID=0 "
		  "SLURM_STEP_NODELIST=n7 SLURM_STEP_TASKS_PER_NODE=2 SLURM_NODEID=0",
		  "slurm", 1, 2, 1, 2, "abstract:taut-slurm-%s-5-0" },
		{ "SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=5 SLURM_NODELIST=n[1-2]", "single", 0, 1, 0, 1, "" },
		/* mpirun in a Slurm job */
		{ "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=1 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 "
		  "TAUT_RENDEZVOUS=[::1]:5",
		  "openmpi", 3, 4, -1, -1, "[::1]:5" },
		/* srun --mpi=pmi2 */
		{ "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=1 PMI_RANK=1 PMI_SIZE=2 TAUT_RENDEZVOUS=h:5",
		  "slurm", 1, 2, -1, -1, "h:5" },
		{ "PMI_RANK=1 PMI_SIZE=2 TAUT_RENDEZVOUS=h:5", "mpich", 1, 2, -1, -1, "h:5" },
		{ "NCCL_COMM_ID=h:5", "single", 0, 1, 0, 1, "" },
	};

	(void)state;
	snprintf(user, sizeof(user), "%u", (unsigned)getuid());
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct boot_env env;
		const char *form = cases[i].rendezvous, *mark = strstr(form, "%s");
		char want[128];

		snprintf(want, sizeof(want), "%.*s%s%s", (int)(mark ? mark - form : (long)strlen(form)), form,
			 mark ? user : "", mark ? mark + 2 : "");
		if (detect(&env, cases[i].vars))
			fail_msg("%s: %s", cases[i].vars, taut_error_message());
		assert_string_equal(env.launcher, cases[i].launcher);
		assert_int_equal(env.rank, cases[i].rank);
		assert_int_equal(env.size, cases[i].size);
		assert_int_equal(env.local_rank, cases[i].local_rank);
		assert_int_equal(env.local_size, cases[i].local_size);
		assert_string_equal(env.rendezvous, want);
		assert_false(env.id_given);
		assert_false(env.secret_given);
	}
}

static void bad_combinations_name_the_variables(void **state)
{
	static const struct {
		const char *vars, *says;
	} cases[] = {
		{ "TAUT_RANK=0", "TAUT_RANK is 0 and TAUT_SIZE is -1" },
		{ "TAUT_SIZE=2", "TAUT_RANK is -1 and TAUT_SIZE is 2" },
		{ "TAUT_RANK=0 TAUT_SIZE=0", "TAUT_SIZE is 0" },
		{ "TAUT_RANK=2 TAUT_SIZE=2 TAUT_RENDEZVOUS=h:1",
		  "TAUT_RANK=2 and TAUT_SIZE=2: the rank must be below" },
		{ "TAUT_RANK=0 TAUT_SIZE=2", "set TAUT_RENDEZVOUS to HOST:PORT" },
		{ "TAUT_RANK=0 TAUT_SIZE=2 TAUT_LOCAL_RANK=2 TAUT_LOCAL_SIZE=2 TAUT_RENDEZVOUS=h:1",
		  "TAUT_LOCAL_RANK=2 and TAUT_LOCAL_SIZE=2" },
		{ "TAUT_RANK=0 TAUT_SIZE=2 TAUT_LOCAL_RANK=x TAUT_RENDEZVOUS=h:1",
		  "TAUT_LOCAL_RANK=x: expected a whole" },
		{ "TAUT_RANK=0 TAUT_SIZE=2 TAUT_LOCAL_SIZE=3 TAUT_RENDEZVOUS=h:1",
		  "TAUT_LOCAL_SIZE=3 and TAUT_SIZE=2" },
		{ "RANK=0", "RANK=0 is set but WORLD_SIZE is not" },
		{ "RANK=x WORLD_SIZE=2", "RANK=x: expected a whole number from 0" },
		{ "RANK=-1 WORLD_SIZE=2", "RANK=-1: expected" },
		{ "RANK=0 WORLD_SIZE=0", "WORLD_SIZE=0: expected a whole number from 1" },
		{ "RANK=0 WORLD_SIZE=99999999999", "WORLD_SIZE=99999999999: expected" },
		{ "RANK=2 WORLD_SIZE=2", "RANK=2 and WORLD_SIZE=2" },
		{ "RANK=0 WORLD_SIZE=2", "MASTER_ADDR or MASTER_PORT is not" },
		{ "RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=65535", "MASTER_PORT=65535" },
		{ "RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=0", "MASTER_PORT=0" },
		{ "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_RANK=0 is set but OMPI_COMM_WORLD_SIZE is not" },
		{ "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2", "no address in OMPI_MCA_orte_hnp_uri" },
		{ "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_MCA_orte_hnp_uri=1.0;tcp://203.0.113.9:5",
		  "rank 0 does not run on the host of mpirun" },
		{ "PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1", "mpich: the variables name no host" },
		{ "PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2", "no hydra process" },
		{ "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2", "neither SLURM_STEP_NODELIST nor SLURM_NODELIST" },
		{ "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_NODELIST=n[", "\"n[\" is no list of nodes" },
		{ "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_NODELIST=a,b SLURMD_NODENAME=b",
		  "first node of the step" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct boot_env env = { .rank = 1234 };

		assert_int_equal(detect(&env, cases[i].vars), TAUT_ERR_CONFIG);
		if (!strstr(taut_error_message(), cases[i].says))
			fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].vars, taut_error_message(), cases[i].says);
		assert_int_equal(env.rank, 1234);
	}
}

static void a_meeting_point_given_by_hand_is_checked(void **state)
{
	static const char *const good[] = { "h:1", "10.0.0.1:65535", "[::1]:80", "file:/x", "abstract:x" };
	static const char *const bad[] = {
		"h",
		":1",
		"h:",
		"h:0",
		"h:65536",
		"h:x",
		"::1:80",
		"[]:80",
		"[::1]",
		"[::1]80",
		"file:",
		"file:x",
		"abstract:",
		"abstract:"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"aaaaaaaaaaaaaaaaaaaaa"
	};
	struct boot_env env;
	char vars[512];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(vars, sizeof(vars), "TAUT_RANK=0 TAUT_SIZE=2 TAUT_RENDEZVOUS=%s", good[i]);
		assert_int_equal(detect(&env, vars), TAUT_OK);
		assert_string_equal(env.rendezvous, good[i]);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(vars, sizeof(vars), "TAUT_RANK=0 TAUT_SIZE=2 TAUT_RENDEZVOUS=%s", bad[i]);
		if (detect(&env, vars) != TAUT_ERR_CONFIG)
			fail_msg("TAUT_RENDEZVOUS=%s was taken", bad[i]);
		assert_non_null(strstr(taut_error_message(), "expected HOST:PORT"));
	}
}

static void slurm_meets_on_the_first_node_at_a_port_of_the_job(void **state)
{
	struct boot_env a, b, c;

	(void)state;
#define STEP "SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NODELIST=n[07-08],x SLURM_STEP_ID=0 "
	assert_int_equal(detect(&a, STEP "SLURM_PROCID=0 SLURMD_NODENAME=n07 SLURM_JOB_ID=5"), TAUT_OK);
	assert_int_equal(detect(&b, STEP "SLURM_PROCID=3 SLURMD_NODENAME=x SLURM_JOB_ID=5"), TAUT_OK);
	assert_int_equal(detect(&c, STEP "SLURM_PROCID=3 SLURMD_NODENAME=x SLURM_JOB_ID=6"), TAUT_OK);
	assert_memory_equal(a.rendezvous, "n07:2", 5);
	assert_string_equal(a.rendezvous, b.rendezvous);
	assert_string_not_equal(a.rendezvous, c.rendezvous);
	assert_memory_equal(a.secret, b.secret, sizeof(a.secret));
	assert_memory_not_equal(a.secret, c.secret, sizeof(a.secret));
}

static void slurm_tells_the_ranks_of_a_node(void **state)
{
	struct boot_env env;

	(void)state;
	assert_int_equal(detect(&env, STEP "SLURM_PROCID=3 SLURM_JOB_ID=5 SLURM_LOCALID=0 SLURM_NODEID=2 "
					   "SLURM_STEP_TASKS_PER_NODE=2,1(x2)"),
			 TAUT_OK);
	assert_int_equal(env.local_rank, 0);
	assert_int_equal(env.local_size, 1);
}

static void openmpi_on_several_machines_meets_at_mpirun(void **state)
{
	struct boot_env env;

	(void)state;
#define OMPI "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0 PMIX_NAMESPACE=9 "
	assert_int_equal(
		detect(&env, OMPI "OMPI_COMM_WORLD_RANK=0 OMPI_MCA_orte_hnp_uri=1.0;tcp://127.0.0.1,10.0.0.1:5"),
		TAUT_OK);
	assert_memory_equal(env.rendezvous, "127.0.0.1:2", 11);
	assert_int_equal(detect(&env, OMPI "OMPI_COMM_WORLD_RANK=1 OMPI_MCA_orte_hnp_uri=1.0;tcp6://[fe80::7]:5"),
			 TAUT_OK);
	assert_memory_equal(env.rendezvous, "[fe80::7]:2", 11);
}

static char secret_path[64];

static void write_secret(const char *text, mode_t mode)
{
	FILE *f;

	snprintf(secret_path, sizeof(secret_path), "/tmp/taut-test-secret-%d", (int)getpid());
	unlink(secret_path);
	f = fopen(secret_path, "w");
	fputs(text, f);
	fclose(f);
	chmod(secret_path, mode);
}

static enum taut_status detect_with_secret_file(struct boot_env *env)
{
	char vars[256];

	snprintf(vars, sizeof(vars), "TAUT_RANK=0 TAUT_SIZE=2 TAUT_RENDEZVOUS=h:1 TAUT_SECRET_FILE=%s", secret_path);
	return detect(env, vars);
}

static void a_secret_is_taken_from_text_or_file(void **state)
{
	struct boot_env text, file, other;

	(void)state;
	write_secret("sesame\n", 0600);
	assert_int_equal(detect(&text, "TAUT_RANK=0 TAUT_SIZE=2 TAUT_RENDEZVOUS=h:1 TAUT_SECRET=sesame"), TAUT_OK);
	assert_int_equal(detect(&other, "TAUT_RANK=0 TAUT_SIZE=2 TAUT_RENDEZVOUS=h:1 TAUT_SECRET=sesame2"), TAUT_OK);
	assert_int_equal(detect_with_secret_file(&file), TAUT_OK);
	assert_true(text.secret_given && file.secret_given);
	assert_memory_equal(text.secret, file.secret, sizeof(text.secret));
	assert_memory_not_equal(text.secret, other.secret, sizeof(text.secret));
	unlink(secret_path);
}

static void a_secret_file_that_others_can_read_is_refused(void **state)
{
	struct boot_env env;

	(void)state;
	write_secret("sesame", 0640);
	assert_int_equal(detect_with_secret_file(&env), TAUT_ERR_CONFIG);
	assert_non_null(strstr(taut_error_message(), "mode 640 lets others in: chmod 600 it"));
	write_secret("sesame", 0602);
	assert_int_equal(detect_with_secret_file(&env), TAUT_ERR_CONFIG);
	write_secret("\n\n", 0600);
	assert_int_equal(detect_with_secret_file(&env), TAUT_ERR_CONFIG);
	assert_non_null(strstr(taut_error_message(), "expected 1 to"));
	unlink(secret_path);
	assert_int_equal(detect_with_secret_file(&env), TAUT_ERR_CONFIG);
	strcpy(secret_path, "/dev/null");
	assert_int_equal(detect_with_secret_file(&env), TAUT_ERR_CONFIG);
	assert_non_null(strstr(taut_error_message(), "not a regular file"));
	if (geteuid() == 0) {
		write_secret("sesame", 0600);
		assert_int_equal(chown(secret_path, 12345, 12345), 0);
		assert_int_equal(detect_with_secret_file(&env), TAUT_ERR_CONFIG);
		assert_non_null(strstr(taut_error_message(), "belongs to user 12345"));
		unlink(secret_path);
	}
	assert_int_equal(detect(&env, "TAUT_SECRET=a TAUT_SECRET_FILE=/b"), TAUT_ERR_CONFIG);
	assert_non_null(strstr(taut_error_message(), "both set"));
}

/* A process with the name that hydra's proxy has stands for it. */
static int under_a_hydra(void)
{
	struct boot_env env;

	prctl(PR_SET_NAME, "hydra_pmi_proxy");
	if (fork() == 0) {
		int ok = !detect(&env, "PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2") &&
			 !strncmp(env.rendezvous, "abstract:taut-mpich-", 20) && !strcmp(env.launcher, "mpich");

		_exit(ok ? 0 : 1);
	}
	int status = 1;

	wait(&status);
	return status;
}

static void hydra_is_found_among_the_ancestors(void **state)
{
	pid_t pid = fork();
	int status = 1;

	(void)state;
	if (pid == 0)
		_exit(under_a_hydra() ? 1 : 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_launcher_is_known),
		cmocka_unit_test(bad_combinations_name_the_variables),
		cmocka_unit_test(a_meeting_point_given_by_hand_is_checked),
		cmocka_unit_test(slurm_meets_on_the_first_node_at_a_port_of_the_job),
		cmocka_unit_test(slurm_tells_the_ranks_of_a_node),
		cmocka_unit_test(openmpi_on_several_machines_meets_at_mpirun),
		cmocka_unit_test(a_secret_is_taken_from_text_or_file),
		cmocka_unit_test(a_secret_file_that_others_can_read_is_refused),
		cmocka_unit_test(hydra_is_found_among_the_ancestors),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
