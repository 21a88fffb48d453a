// SPDX-License-Identifier: MIT OR Apache-2.0
/* cc -O2 -Wall -o fdcount fdcount.c */
/* Closes all descriptors above 2, counts its own, runs itself with 0 to 2 closed, re-opens standard input, passes descriptors over a socket and inherits locks. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int count(void)
{
    int n = -1; /* the directory itself */
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void pass(int sock, int fd)
{
    char c = 'f', buf[CMSG_SPACE(sizeof fd)] = { 0 };
    struct iovec io = { &c, 1 };
    struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = buf, .msg_controllen = sizeof buf };
    *CMSG_FIRSTHDR(&m) = (struct cmsghdr){ CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS };
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &fd, sizeof fd);
    sendmsg(sock, &m, 0);
}

static int take(int sock)
{
    int fd = -1;
    char c, buf[CMSG_SPACE(sizeof fd)];
    struct iovec io = { &c, 1 };
    struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = buf, .msg_controllen = sizeof buf };
    if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&m))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}

static int status(pid_t p)
{
    int st;
    waitpid(p, &st, 0);
    return WIFEXITED(st) ? WEXITSTATUS(st) : 200;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "naked")) { /* nothing open at all */
        int a = open("/dev/null", O_RDWR), b = dup(a), c = dup(b), d = dup(c);
        return a == 0 && b == 1 && c == 2 && d == 3 ? 10 : 1;
    }
    if (argc > 1)
        return 20 + count();
    close_range(3, ~0u, 0);
    /* as careful daemons do: close one by one, each must have been closed already */
    struct rlimit rl;
    getrlimit(RLIMIT_NOFILE, &rl);
    long strays = 0;
    for (int i = 3; i < (rl.rlim_cur < 20000 ? (int)rl.rlim_cur : 20000); i++)
        strays += close(i) == 0;
    printf("open %d, strays %ld\n", count(), strays);
    fflush(stdout);
    long naked = 0, plain = 0, high = 0, rights = 0, locks = 0, counts = 0, unshared = 0;
    for (int i = 0; i < 80; i++) {
        pid_t p = fork();
        if (p == 0) {
            close_range(0, ~0u, 0);
            execl("/proc/self/exe", argv[0], "naked", NULL);
            _exit(1);
        }
        naked += status(p) == 10;
        int keep = open("/dev/null", O_RDONLY), lose = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if ((p = fork()) == 0) {
            execl("/proc/self/exe", argv[0], "plain", NULL);
            _exit(1);
        }
        plain += status(p) == 24;
        high += dup2(keep, 1000) == 1000 && fcntl(keep, F_DUPFD, 1000) == 1001;
        if ((p = fork()) == 0) {
            close_range(4, ~0u, CLOSE_RANGE_UNSHARE);
            _exit(count());
        }
        unshared += status(p) == 4;
        counts += count() == 7;
        close_range(3, ~0u, 0);
        (void)lose;

        int s[2], m = memfd_create("m", MFD_CLOEXEC);
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s))
            return 1;
        if ((p = fork()) == 0) {
            int fd = take(s[1]);
            _exit(fd == 6 && pwrite(fd, "hello", 5, 3) == 5 && lseek(fd, 0, SEEK_CUR) == 1 ? 3 : 4);
        }
        int other = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        lseek(m, 1, SEEK_SET);
        pass(s[0], m);
        char b[8] = { 0 };
        rights += status(p) == 3 && pread(m, b, 5, 3) == 5 && !strcmp(b, "hello");
        /* a lock lives on in the child that inherited the description */
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", m);
        int hold[2], second = open(path, O_RDWR | O_CLOEXEC);
        if (pipe2(hold, O_CLOEXEC))
            return 1;
        flock(m, LOCK_EX);
        if ((p = fork()) == 0) {
            close(hold[1]);
            _exit(read(hold[0], b, 1));
        }
        close(m);
        locks += flock(second, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK;
        close(hold[1]);
        locks += status(p) == 0 && flock(second, LOCK_EX | LOCK_NB) == 0;
        close(other);
        close_range(3, ~0u, 0);
    }
    printf("naked %ld, plain %ld, high %ld, unshared %ld, counts %ld, rights %ld, locks %ld\n", naked, plain, high, unshared, counts, rights, locks);
    close(0);
    int in = open("/proc/self/exe", O_RDONLY);
    printf("standard input is %d, first byte %d\n", in, getchar());
    return 0;
}
