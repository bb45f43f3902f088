/* Preloaded into the process under test: counts the calls that write below one folder, and at the k-th lets the disk fail
 * (with an errno, once or from then on) or the process die (before, in the middle of, or after the call).
 * It does nothing until torture_arm() is called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char root[PATH_MAX];
static size_t root_length;
static int trace = -1, failure;
static long fail_at;
static int sticky, half, killing, kill_after;
static atomic_long calls;

/* mode: a word of letters; s: sticky, h: half of the bytes first, k: kill before (or after half), a: kill after */
void torture_arm(const char *folder, const char *trace_path, long at, int error, const char *mode) {
    root_length = strlen(folder);
    memcpy(root, folder, root_length + 1);
    fail_at = at;
    failure = error;
    sticky = strchr(mode, 's') != NULL;
    half = strchr(mode, 'h') != NULL;
    killing = strchr(mode, 'k') != NULL;
    kill_after = strchr(mode, 'a') != NULL;
    if (trace_path[0]) trace = (int)syscall(SYS_openat, AT_FDCWD, trace_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
}

static int below(const char *path) {
    return root_length && strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || path[root_length] == 0);
}

static int path_of_descriptor(int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return 1;
}

static int absolute(int folder, const char *name, char *path) {
    char base[PATH_MAX];
    if (name[0] == '/') return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX;
    if (folder == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) return 0;
    } else if (!path_of_descriptor(folder, base)) {
        return 0;
    }
    return snprintf(path, PATH_MAX, "%s/%s", base, name) < PATH_MAX;
}

enum { PASS, FAIL, FAIL_HALF, DIE_AFTER };

static int fate(const char *call, const char *path, int writes, int frees) {
    if (!below(path)) return PASS;
    long number = atomic_fetch_add(&calls, 1) + 1;
    if (trace >= 0) {
        char line[PATH_MAX + 64];
        int length = snprintf(line, sizeof line, "%ld %s %s\n", number, call, path + root_length);
        syscall(SYS_write, trace, line, (size_t)length);
    }
    if (!fail_at || number < fail_at) return PASS;
    if (number > fail_at) return sticky && !frees ? FAIL : PASS;
    if (killing && !(half && writes)) kill(getpid(), SIGKILL);
    if (kill_after) return DIE_AFTER;
    return half && writes ? FAIL_HALF : FAIL;
}

static int fate_of_descriptor(const char *call, int descriptor, int writes, int frees) {
    char path[PATH_MAX];
    if (!root_length || !path_of_descriptor(descriptor, path)) return PASS;
    return fate(call, path, writes, frees);
}

static int fate_of_name(const char *call, int folder, const char *name) {
    char path[PATH_MAX];
    if (!root_length || !absolute(folder, name, path)) return PASS;
    return fate(call, path, 0, 0);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define CLOSED(decision, call)                   \
    do {                                         \
        int verdict = (decision);                \
        if (verdict == FAIL) {                   \
            errno = failure;                     \
            return -1;                           \
        }                                        \
        __auto_type result = (call);             \
        if (verdict == DIE_AFTER) kill(getpid(), SIGKILL); \
        return result;                           \
    } while (0)

static ssize_t spoilt(int decided, int descriptor, const void *bytes, size_t count, off_t place) {
    if (decided == FAIL_HALF && count > 1) {
        if (place < 0) syscall(SYS_write, descriptor, bytes, count / 2);
        else syscall(SYS_pwrite64, descriptor, bytes, count / 2, place);
    }
    if (killing) kill(getpid(), SIGKILL);
    errno = failure;
    return -1;
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
    int decided = fate_of_descriptor("write", descriptor, 1, 0);
    if (decided == FAIL || decided == FAIL_HALF) return spoilt(decided, descriptor, bytes, count, -1);
    CLOSED(decided, REAL(write)(descriptor, bytes, count));
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t place) {
    int decided = fate_of_descriptor("pwrite", descriptor, 1, 0);
    if (decided == FAIL || decided == FAIL_HALF) return spoilt(decided, descriptor, bytes, count, place);
    CLOSED(decided, REAL(pwrite64)(descriptor, bytes, count, place));
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t place) {
    return pwrite64(descriptor, bytes, count, place);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    int decided = fate_of_descriptor("writev", descriptor, 0, 0);
    CLOSED(decided, REAL(writev)(descriptor, parts, count));
}

int fsync(int descriptor) { CLOSED(fate_of_descriptor("fsync", descriptor, 0, 0), REAL(fsync)(descriptor)); }
int fdatasync(int descriptor) { CLOSED(fate_of_descriptor("fdatasync", descriptor, 0, 0), REAL(fdatasync)(descriptor)); }
int ftruncate64(int descriptor, off64_t length) {
    CLOSED(fate_of_descriptor("ftruncate", descriptor, 0, 1), REAL(ftruncate64)(descriptor, length));
}
int ftruncate(int descriptor, off_t length) { return ftruncate64(descriptor, length); }
int fallocate64(int descriptor, int mode, off64_t place, off64_t length) {
    CLOSED(fate_of_descriptor("fallocate", descriptor, 0, 0), REAL(fallocate64)(descriptor, mode, place, length));
}
int fallocate(int descriptor, int mode, off_t place, off_t length) {
    return fallocate64(descriptor, mode, place, length);
}

int truncate64(const char *name, off64_t length) {
    char path[PATH_MAX];
    int decided = root_length && absolute(AT_FDCWD, name, path) ? fate("truncate", path, 0, 1) : PASS;
    CLOSED(decided, REAL(truncate64)(name, length));
}
int truncate(const char *name, off_t length) { return truncate64(name, length); }

int rename(const char *from, const char *to) {
    CLOSED(fate_of_name("rename", AT_FDCWD, to), REAL(rename)(from, to));
}
int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    CLOSED(fate_of_name("rename", to_folder, to), REAL(renameat)(from_folder, from, to_folder, to));
}
int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    CLOSED(fate_of_name("rename", to_folder, to), REAL(renameat2)(from_folder, from, to_folder, to, flags));
}
int link(const char *from, const char *to) { CLOSED(fate_of_name("link", AT_FDCWD, to), REAL(link)(from, to)); }
int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    CLOSED(fate_of_name("link", to_folder, to), REAL(linkat)(from_folder, from, to_folder, to, flags));
}

/* A folder that is there already needs no disk: it is EEXIST as ever, and no write point. */
static int fate_of_folder(int folder, const char *name) {
    return faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ? PASS : fate_of_name("mkdir", folder, name);
}
int mkdir(const char *name, mode_t mode) { CLOSED(fate_of_folder(AT_FDCWD, name), REAL(mkdir)(name, mode)); }
int mkdirat(int folder, const char *name, mode_t mode) {
    CLOSED(fate_of_folder(folder, name), REAL(mkdirat)(folder, name, mode));
}

static int writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT); }

#define OPENING(folder, name, flags, real)                                       \
    mode_t mode = 0;                                                             \
    if (__OPEN_NEEDS_MODE(flags)) {                                              \
        va_list rest;                                                            \
        va_start(rest, flags);                                                   \
        mode = va_arg(rest, mode_t);                                             \
        va_end(rest);                                                            \
    }                                                                            \
    CLOSED(writes(flags) ? fate_of_name("open", folder, name) : PASS, real)

int open64(const char *name, int flags, ...) { OPENING(AT_FDCWD, name, flags, REAL(open64)(name, flags, mode)); }
int open(const char *name, int flags, ...) { OPENING(AT_FDCWD, name, flags, REAL(open64)(name, flags, mode)); }
int openat64(int folder, const char *name, int flags, ...) {
    OPENING(folder, name, flags, REAL(openat64)(folder, name, flags, mode));
}
int openat(int folder, const char *name, int flags, ...) {
    OPENING(folder, name, flags, REAL(openat64)(folder, name, flags, mode));
}
int creat(const char *name, mode_t mode) { return open64(name, O_WRONLY | O_CREAT | O_TRUNC, mode); }
