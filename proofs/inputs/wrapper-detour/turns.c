/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * `ld` first on PATH: does each link of a build twice, by the stand-in on PATH and through the wrapper, both under strace, and keeps what
 * each was handed, called and made. WORK is the folder of the proof.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[4096];

static const char *in_folder(const char *name) {
  static char path[8192];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void copy(const char *from, const char *to, int descriptor) {
  char bytes[65536];
  ssize_t length;
  int in = open(from, O_RDONLY | O_CLOEXEC);
  int out = to ? open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : descriptor;
  while (in >= 0 && out >= 0 && (length = read(in, bytes, sizeof bytes)) > 0)
    if (write(out, bytes, length) != length) break;
  if (in >= 0) close(in);
  if (to && out >= 0) close(out);
}

/* Links with `linker`, and keeps what came of it under `name`. */
static int link_by(const char *name, const char *linker, int count, char **words, const char *output) {
  char place[64];
  int status = 0;
  struct stat there;
  if (lstat(output, &there) == 0 && S_ISREG(there.st_mode)) unlink(output);
  pid_t child = fork();
  if (child == 0) {
    char **all = calloc(count + 8, sizeof *all);
    int at = 0;
    all[at++] = "strace";
    all[at++] = "-ttt";
    all[at++] = "-o";
    all[at++] = WORK "/calls";
    all[at++] = (char *)linker;
    memcpy(all + at, words + 1, (count - 1) * sizeof *all);
    int out = open(WORK "/out", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    int error = open(WORK "/err", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dup2(out, 1);
    dup2(error, 2);
    close(out);
    close(error);
    execv("/usr/bin/strace", all);
    _exit(126);
  }
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  const char *kept[] = {"calls", "state", "out", "err"};
  for (int at = 0; at < 4; at++) {
    char from[4096];
    snprintf(from, sizeof from, "%s/%s", WORK, kept[at]);
    snprintf(place, sizeof place, "%s.%s", name, kept[at]);
    copy(from, in_folder(place), -1);
  }
  snprintf(place, sizeof place, "%s.made", name);
  struct stat found;
  if (stat(output, &found) == 0 && S_ISREG(found.st_mode)) copy(output, in_folder(place), -1);
  snprintf(place, sizeof place, "%s.status", name);
  FILE *file = fopen(in_folder(place), "w");
  fprintf(file, "%d\n", status);
  fclose(file);
  return status;
}

int main(int count, char **words) {
  const char *output = "a.out";
  for (int at = 1; at < count; at++) {
    if (!strcmp(words[at], "-o") && at + 1 < count) output = words[at + 1];
    if (!strcmp(words[at], "-v") || strstr(words[at], "-version") == words[at] + 1) output = WORK "/none";
  }
  int lock = open(WORK "/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  flock(lock, LOCK_EX);
  strcpy(folder, WORK "/links/XXXXXX");
  if (!mkdtemp(folder)) return 125;
  FILE *file = fopen(in_folder("output"), "w");
  char here[4096];
  fprintf(file, "%s\t%s\n", getcwd(here, sizeof here), output);
  fclose(file);
  /* Behind this program on PATH, and with the wrapper's folder before the compiler's own, as -B puts it there. */
  char *path = getenv("PATH"), *rest = strchr(path, ':');
  setenv("PATH", rest ? rest + 1 : "", 1);
  const char *way = getenv("COMPILER_PATH");
  int by_gcc = getenv("COLLECT_GCC") != NULL;
  if (by_gcc) {
    char *with = malloc(strlen(way ? way : "") + 4096);
    sprintf(with, "%s/wrapper/%s%s", WORK, way ? ":" : "", way ? way : "");
    setenv("COMPILER_PATH", with, 1);
  }
  link_by("plain", by_gcc ? WORK "/tools/ld" : "ld", count, words, output);
  int status = link_by("wrapped", WORK "/wrapper/ld", count, words, output);
  copy(in_folder("wrapped.out"), NULL, 1);
  copy(in_folder("wrapped.err"), NULL, 2);
  file = fopen(in_folder("done"), "w");
  fclose(file);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 124;
}
