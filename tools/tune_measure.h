/* SPDX-License-Identifier: Apache-2.0 */
/* Times the points of `taut tune` on real ranks. */
#ifndef TOOLS_TUNE_MEASURE_H
#define TOOLS_TUNE_MEASURE_H

#include "tune_plan.h"

struct tune_measure {
	struct taut_comm *control; /* all ranks; the ids of the measured groups travel here */
	const struct tune_sizes *sizes;
	const char *wire; /* TAUT_WIRE of the groups; NULL: as the user's settings say */
	double seconds;	  /* for all the points */
	int rounds;	  /* each point is measured so often, the best counts */
	bool bind;	  /* each rank to a processor of its own, if there are enough */
	/* (optional) Called on rank 0 before each point; @part 0 to 1 of the work is done. */
	void (*progress)(void *ctx, const struct tune_point *p, double part);
	void *ctx;
};

/* Collective over m->control; the ranks from p->at->nranks on only wait. All points have one
 * case. Fills us of all points on rank 0; 0 where the ranks did not do what the point asks. */
enum taut_status tune_measure(struct tune_points *points, const struct tune_measure *m);

#endif
