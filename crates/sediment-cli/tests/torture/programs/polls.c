// SPDX-License-Identifier: MIT OR Apache-2.0
// The same by one thread that waits for all connections at once; a wait that a stop interrupts is taken up again.
#include "act.h"
#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/socket.h>
int main(int count, char **arguments) {
    struct sigaction action = {.sa_handler = act_end};
    sigaction(SIGTERM, &action, 0);
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), all = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (bind(listening, (struct sockaddr *)&address, sizeof address) || listen(listening, 64)) return 2;
    getsockname(listening, (struct sockaddr *)&address, &length);
    FILE *file = fopen("port", "w");
    fprintf(file, "%d\n", ntohs(address.sin_port)), fclose(file);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listening};
    epoll_ctl(all, EPOLL_CTL_ADD, listening, &event);
    puts("ready"), fflush(stdout);
    while (!act_over) {
        struct epoll_event events[16];
        int found = epoll_wait(all, events, 16, 1000);
        expect(found >= 0 || errno == EINTR, "epoll_wait failed with %d", errno);
        for (int i = 0; i < found; i++) {
            int socket = events[i].data.fd;
            if (socket == listening) {
                event.data.fd = accept(listening, 0, 0);
                if (event.data.fd >= 0) epoll_ctl(all, EPOLL_CTL_ADD, event.data.fd, &event);
                continue;
            }
            char buffer[512];
            ssize_t got = read(socket, buffer, sizeof buffer);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) { close(socket); continue; }
            unsigned sum = 7;
            for (ssize_t k = 0; k < got; k++) sum = sum * 31 + buffer[k];
            work(1);
            got = snprintf(buffer, sizeof buffer, "%u\n", sum);
            expect(write(socket, buffer, got) == got, "an answer was cut");
        }
    }
    return act_finish();
}
