/* A disk without room, for a process that preloads this: files do not grow, and what is there already can be written.

   While the file named by FENCEPOST_FULL exists, a write that would make a file grow whose path holds the text in it
   fails with ENOSPC. Built and told by tests/services/disk.py. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int would_grow(int fd, off_t end)
{
    char wanted[64] = {0}, link[32], path[4096] = {0};
    struct stat file;
    const char *flag = getenv("FENCEPOST_FULL");
    int told = flag ? open(flag, O_RDONLY | O_CLOEXEC) : -1;

    if (told < 0)
        return 0;
    ssize_t length = read(told, wanted, sizeof wanted - 1);
    close(told);
    if (length <= 0 || fstat(fd, &file) || !S_ISREG(file.st_mode) || end <= file.st_size)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, path, sizeof path - 1) > 0 && strstr(path, wanted);
}

static int is_full(int fd, off_t end)
{
    int before = errno, full = would_grow(fd, end);

    errno = full ? ENOSPC : before;
    return full;
}

static off_t length_of(const struct iovec *parts, int count)
{
    off_t length = 0;

    for (int part = 0; part < count; part++)
        length += parts[part].iov_len;
    return length;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *from, size_t length)
{
    return is_full(fd, lseek(fd, 0, SEEK_CUR) + length) ? -1 : REAL(write)(fd, from, length);
}

#define WRITES(pwrite, pwritev, posix_fallocate)                                                  \
    ssize_t pwrite(int fd, const void *from, size_t length, off_t at)                             \
    {                                                                                             \
        return is_full(fd, at + length) ? -1 : REAL(pwrite)(fd, from, length, at);                \
    }                                                                                             \
    ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)                       \
    {                                                                                             \
        return is_full(fd, at + length_of(parts, count)) ? -1 : REAL(pwritev)(fd, parts, count, at); \
    }                                                                                             \
    int posix_fallocate(int fd, off_t at, off_t length)                                           \
    {                                                                                             \
        return is_full(fd, at + length) ? ENOSPC : REAL(posix_fallocate)(fd, at, length);         \
    }

WRITES(pwrite, pwritev, posix_fallocate)
WRITES(pwrite64, pwritev64, posix_fallocate64)
