/* SPDX-License-Identifier: Apache-2.0 */
/* What `taut tune` found: as a file, for a person, as JSON. */
#ifndef TOOLS_TUNE_REPORT_H
#define TOOLS_TUNE_REPORT_H

#include "tune_plan.h"

struct tune_report {
	const struct tune_points *points;
	const struct tune_sizes *sizes;
	const char *path;
	struct cost_machine machine; /* fitted */
	double error;		     /* typical factor between model and measurement */
};

/* Writes the tuning file: the numbers, and the best ways. Lines of @old (may be NULL) for
 * collectives, numbers of ranks and of machines that were not measured stay. */
enum taut_status tune_report_save(const struct tune_report *r, const struct tune *old);
/* To standard output. */
enum taut_status tune_report_text(const struct tune_report *r);
enum taut_status tune_report_json(const struct tune_report *r);

#endif
