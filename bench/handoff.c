/* handoff: how soon the next waiter has the lock. All connections want one key; the holder writes its release when all
 * others are known to be in the queue, and the time until the next one reads its grant is a sample.
 *   handoff PORT CONNECTIONS SECONDS     the dflock line protocol (e and w in one write; the server's "queued" tells)
 * Prints one line: hand-offs/s, errors, and the hand-off in microseconds (p50 p99 max).
 * Build: cc -O2 -o handoff handoff.c */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES_MAX 4000000
enum state { JOINING, QUEUED, HOLDING, RELEASING };
struct conn { int fd, used; enum state state; char token[80], in[1024]; };

static struct conn *conns, *holder;
static int count, queued;
static long errors, taken;
static double released, *samples;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void send_text(struct conn *c, const char *text, int n) {
    if (write(c->fd, text, n) != n) { perror("write"); exit(1); }
}

static void join(struct conn *c) {
    static const char JOIN[] = "e\nhandoff\n30\nw\nhandoff\n30\n";
    c->state = JOINING;
    send_text(c, JOIN, sizeof JOIN - 1);
}

static void release(struct conn *c) {
    char out[128];
    int n = sprintf(out, "r\nhandoff\n%s\n", c->token);
    c->state = RELEASING;
    holder = 0;
    released = now();
    send_text(c, out, n);
}

static void take_line(struct conn *c, const char *line) {
    if (!strncmp(line, "acquired ", 9)) return; /* the answer of w follows, with the token */
    if (c->state == JOINING && !strcmp(line, "queued")) {
        c->state = QUEUED;
        queued++;
    } else if ((c->state == JOINING || c->state == QUEUED) && sscanf(line, "ok %79s", c->token) == 1) {
        if (c->state == QUEUED) {
            queued--;
            if (taken < SAMPLES_MAX) samples[taken++] = now() - released;
        }
        c->state = HOLDING;
        holder = c;
    } else if (c->state == RELEASING && !strcmp(line, "ok")) {
        join(c);
    } else {
        fprintf(stderr, "unexpected: %s\n", line);
        errors++;
        exit(1);
    }
}

static void take_bytes(struct conn *c) {
    int n = read(c->fd, c->in + c->used, sizeof c->in - 1 - c->used);
    char *line = c->in, *end;
    if (n <= 0) { fprintf(stderr, "connection closed\n"); exit(1); }
    c->used += n;
    c->in[c->used] = 0;
    while ((end = strchr(line, '\n'))) {
        *end = 0;
        take_line(c, line);
        line = end + 1;
    }
    c->used -= line - c->in;
    memmove(c->in, line, c->used);
}

int main(int argc, char **argv) {
    if (argc < 4) { fprintf(stderr, "usage: handoff PORT CONNECTIONS SECONDS\n"); return 64; }
    int one = 1, poller = epoll_create1(0);
    double seconds = atof(argv[3]);
    struct epoll_event events[256];

    count = atoi(argv[2]);
    if (count < 2) { fprintf(stderr, "CONNECTIONS is 2 or more\n"); return 64; }
    conns = calloc(count, sizeof *conns);
    samples = malloc(sizeof(double) * SAMPLES_MAX);
    for (int i = 0; i < count; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = conns + i};
        inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
        conns[i].fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(conns[i].fd, (void *)&address, sizeof address)) { perror("connect"); return 1; }
        setsockopt(conns[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        epoll_ctl(poller, EPOLL_CTL_ADD, conns[i].fd, &event);
        join(conns + i);
    }
    double start = now(), stop = start + seconds;
    while (now() < stop) {
        int ready = epoll_wait(poller, events, 256, 1000);
        for (int i = 0; i < ready; i++) take_bytes(events[i].data.ptr);
        if (holder && queued == count - 1) release(holder);
    }
    if (!taken) { fprintf(stderr, "no hand-off happened\n"); return 1; }
    double took = now() - start;
    qsort(samples, taken, sizeof(double), compare);
    printf("handoffs/s %.0f errors %ld p50 %.1f p99 %.1f max %.1f\n", taken / took, errors, samples[taken / 2] * 1e6,
           samples[(long)(taken * .99)] * 1e6, samples[taken - 1] * 1e6);
    return 0;
}
