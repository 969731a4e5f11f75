/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

static struct {
	pthread_once_t once;
	struct cuda_driver table;
	_Atomic bool works; /* set once all else is */
	_Atomic bool looked;
	char why[256];
} driver = { .once = PTHREAD_ONCE_INIT };

static bool resolve(void *lib)
{
	static const struct {
		size_t at;
		const char *symbol;
	} names[] = {
#define CU(name, symbol, params) { offsetof(struct cuda_driver, name), symbol },
#include "cuda/driver.def"
#undef CU
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		void *f = dlsym(lib, names[i].symbol);

		if (!f) {
			snprintf(driver.why, sizeof(driver.why),
				 "%s has no %s: the driver is too old, 525 or newer is needed", LIBRARY,
				 names[i].symbol);
			return false;
		}
		memcpy((char *)&driver.table + names[i].at, &f, sizeof(f));
	}
	return true;
}

static void look(void)
{
	void *lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	const char *text = "?";
	int err;

	if (!lib) {
		snprintf(driver.why, sizeof(driver.why), "%s cannot be loaded: no NVIDIA driver here", LIBRARY);
		return;
	}
	if (!resolve(lib))
		return;
	err = driver.table.init(0);
	if (err) {
		driver.table.error_string(err, &text);
		snprintf(driver.why, sizeof(driver.why), "the NVIDIA driver does not start: %s (error %d)", text, err);
		return;
	}
	driver.works = true;
}

static void load(void)
{
	look();
	driver.looked = true;
}

const struct cuda_driver *cuda_driver(const char **why)
{
	pthread_once(&driver.once, load);
	if (why)
		*why = driver.works ? "" : driver.why;
	return driver.works ? &driver.table : NULL;
}

/* Asked for every pointer of a call: the library is not looked for again. */
const struct cuda_driver *cuda_driver_if_used(void)
{
	void *lib;

	if (driver.looked)
		return driver.works ? &driver.table : NULL;
	lib = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);
	if (!lib)
		return NULL;
	dlclose(lib);
	return cuda_driver(NULL);
}

enum taut_status cuda_st(int result, const char *what)
{
	const char *text = NULL;

	if (result == CU_OK)
		return TAUT_OK;
	driver.table.error_string(result, &text);
	return fail(TAUT_ERR_SYS, "%s: %s (error %d of the NVIDIA driver)", what, text ? text : "unknown error",
		    result);
}
