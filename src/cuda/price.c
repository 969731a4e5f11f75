/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/price.h"

#define START_US 2.6	    /* of a kernel that waits for a word of every peer */
#define BYTE_US (1 / 320e3) /* what leaves or reaches a GPU over its links */

static double least(double a, double b)
{
	return a < b ? a : b;
}

static double time_of(double starts, double bytes)
{
	return starts * START_US + bytes * BYTE_US;
}

double gpu_price(enum sched_coll coll, int nranks, size_t bytes)
{
	double piece = (double)bytes, others = nranks - 1;

	if (!bytes || nranks < 2)
		return 0;
	switch (coll) {
	case COLL_ALL_REDUCE: /* all to all; or in shares, there and back */
		return least(time_of(1, others * piece), time_of(2, 2 * others / nranks * piece));
	case COLL_BROADCAST:
	case COLL_REDUCE: /* one and all; or all in shares */
		return least(time_of(1, others * piece), time_of(2, piece));
	default:
		return time_of(1, others * piece);
	}
}

double gpu_price_message(size_t bytes)
{
	return time_of(1, (double)bytes);
}
