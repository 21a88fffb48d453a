// SPDX-License-Identifier: MIT OR Apache-2.0
// A server: a thread for each connection, which answers each line by a sum over it.
#include "act.h"
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
static void *serve(void *connection) {
    int socket = (long)connection;
    char buffer[512];
    for (ssize_t length; (length = read(socket, buffer, sizeof buffer)) != 0;) {
        if (length < 0) { if (errno == EINTR) continue; break; }
        unsigned sum = 7;
        for (ssize_t i = 0; i < length; i++) sum = sum * 31 + buffer[i];
        work(1);
        length = snprintf(buffer, sizeof buffer, "%u\n", sum);
        if (write(socket, buffer, length) != length) break;
    }
    close(socket);
    return 0;
}
int main(int count, char **arguments) {
    act_rounds = 0;
    struct sigaction action = {.sa_handler = act_end};
    sigaction(SIGTERM, &action, 0);
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (bind(listening, (struct sockaddr *)&address, sizeof address) || listen(listening, 64)) return 2;
    getsockname(listening, (struct sockaddr *)&address, &length);
    // The port goes where it is not compared.
    FILE *file = fopen("port", "w");
    fprintf(file, "%d\n", ntohs(address.sin_port)), fclose(file);
    puts("ready"), fflush(stdout);
    while (!act_over) {
        int connection = accept(listening, 0, 0);
        if (connection < 0) continue;
        pthread_t thread;
        pthread_create(&thread, 0, serve, (void *)(long)connection);
        pthread_detach(thread);
    }
    return act_finish();
}
