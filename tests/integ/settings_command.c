/* SPDX-License-Identifier: Apache-2.0 */
/* `taut settings` finds what a communicator would refuse, also in settings that only their room understands. */
#include <stdint.h>

#include "run_taut.h"

static void refuses(const char *name, const char *value, const char *words)
{
	struct ran *r;

	setenv(name, value, 1);
	r = TAUT("settings");
	CHECK(r->code == 1 && strstr(r->out, "    wrong: ") && strstr(r->out, words));
	CHECK(strstr(r->out, "TAUT_TUNE_FILE=")); /* the others are shown */
	r = TAUT("settings", "--json", (char *)(uintptr_t)name);
	CHECK(r->code == 1 && strstr(r->out, "\"error\": "));
	unsetenv(name);
}

static void takes(const char *name, const char *value)
{
	struct ran *r;

	setenv(name, value, 1);
	r = TAUT("settings", (char *)(uintptr_t)name);
	CHECK(r->code == 0 && !strstr(r->out, "wrong: "));
	unsetenv(name);
}

int main(void)
{
	refuses("TAUT_SLOTS", "many", "TAUT_SLOTS");
	refuses("TAUT_WIRE", "pigeon", "TAUT_WIRE is \"pigeon\", wanted: auto, shm or tcp");
	refuses("TAUT_ALGO", "all_reduce:rong", "rong");
	refuses("TAUT_PROTO", "all_reduce:bulky", "bulky");
	takes("TAUT_WIRE", "TCP");
	takes("TAUT_WIRE", "auto");
	takes("TAUT_ALGO", "^ring;broadcast:chain");
	takes("NCCL_PROTO", "Simple");
	takes("NCCL_SHM_DISABLE", "yes");
	CHECK(strstr(last_run.err, "NCCL_SHM_DISABLE=yes (environment): expected a number from 0 to 1"));
	CHECK(TAUT("settings")->code == 0 && !strstr(last_run.err, "is no setting"));
	setenv("TAUT_SLOT_BYTE", "1M", 1);
	CHECK(TAUT("settings")->code == 0 && strstr(last_run.err, "did you mean TAUT_SLOT_BYTES?"));
	unsetenv("TAUT_SLOT_BYTE");
	CHECK(TAUT("settings", "NCCL_ALGO")->code == 0);
	CHECK(TAUT("settings", "NCCL_NVLS_ENABLE")->code == 2 &&
	      strstr(last_run.err, "has no effect: taut does not use"));
	CHECK(TAUT("settings", "NCCL_ALGOS")->code == 2 && strstr(last_run.err, "did you mean NCCL_ALGO?"));
	return 0;
}
