/* SPDX-License-Identifier: Apache-2.0 */
/* Gives every file of the named folders to a fuzz target, once: `replay_NAME FOLDER...`.
 * A folder without a file is an error: such a test would check nothing. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int replay_file(const char *path, size_t len)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = malloc(len ? len : 1); /* exactly sized: a sanitizer sees a read past it */
	int rc = -1;

	if (!file || !data)
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
	else if (fread(data, 1, len, file) != len)
		fprintf(stderr, "%s: cannot read %zu bytes\n", path, len);
	else
		rc = LLVMFuzzerTestOneInput(data, len);
	free(data);
	if (file)
		fclose(file);
	return rc ? -1 : 0;
}

/* The number of files, or -1. */
static int replay_folder(const char *folder)
{
	DIR *dir = opendir(folder);
	int files = 0;

	if (!dir) {
		fprintf(stderr, "%s: %s\n", folder, strerror(errno));
		return -1;
	}
	for (struct dirent *entry = readdir(dir); entry && files >= 0; entry = readdir(dir)) {
		char path[4096];
		struct stat st;

		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (stat(path, &st) || !S_ISREG(st.st_mode))
			continue;
		files = replay_file(path, (size_t)st.st_size) ? -1 : files + 1;
	}
	closedir(dir);
	return files;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		int files = replay_folder(argv[i]);

		if (files <= 0) {
			fprintf(stderr, "%s: %s\n", argv[i], files ? "a file failed" : "no file to replay");
			return 1;
		}
		printf("%s: %d files replayed\n", argv[i], files);
	}
	return argc > 1 ? 0 : 1;
}
