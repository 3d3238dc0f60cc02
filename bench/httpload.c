/* httpload: a closed loop of acquire, renew and release over HTTP, one request in flight on each kept-alive connection.
 *   httpload PORT CONNECTIONS SECONDS      each connection goes for a lock of its own
 * Prints one line: requests/s, cycles/s, errors, busy (answers that the store was busy; asked again), latency of a
 * request in microseconds (p50 p99 p99.9).
 * Build: cc -O2 -o httpload httpload.c */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES_MAX 8000000
enum step { ACQUIRE, RENEW, RELEASE };
static const char *const ACTIONS[] = {"acquire", "renew", "release"};
static const char *const DONE[] = {"\"acquired\":true", "\"renewed\":true", "\"released\":true"};

struct conn { int fd, used; enum step step; double sent; long token; char lock[48], lease[80], in[4096]; };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void send_next(struct conn *c) {
    char out[1024], body[512];
    int n, length;
    if (c->step == ACQUIRE)
        length = sprintf(body, "{\"owner_id\":\"%s\",\"ttl_ms\":60000}", c->lock);
    else if (c->step == RENEW)
        length = sprintf(body, "{\"owner_id\":\"%s\",\"lease_id\":\"%s\",\"fencing_token\":%ld,\"extend_by_ms\":60000}",
                         c->lock, c->lease, c->token);
    else
        length = sprintf(body, "{\"owner_id\":\"%s\",\"lease_id\":\"%s\",\"fencing_token\":%ld}", c->lock, c->lease,
                         c->token);
    n = sprintf(out, "POST /v1/locks/%s/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                "Content-Length: %d\r\n\r\n%s", c->lock, ACTIONS[c->step], length, body);
    c->sent = now();
    if (write(c->fd, out, n) != n) { perror("write"); exit(2); }
}

/* Find the body of a whole answer; NULL while some of it is missing. */
static char *whole(struct conn *c) {
    char *end = strstr(c->in, "\r\n\r\n"), *length;
    if (!end) return NULL;
    length = strcasestr(c->in, "\r\ncontent-length:");
    if (!length || length > end) { fprintf(stderr, "an answer without a length: %s\n", c->in); exit(2); }
    end += 4;
    return c->used - (end - c->in) >= atoi(length + 17) ? end : NULL;
}

static int keep_lease(struct conn *c, const char *body) {
    const char *lease = strstr(body, "\"lease_id\":\""), *token = strstr(body, "\"fencing_token\":");
    return lease && token && sscanf(lease + 12, "%79[^\"]", c->lease) == 1 && sscanf(token + 16, "%ld", &c->token) == 1;
}

int main(int argc, char **argv) {
    if (argc != 4) { fprintf(stderr, "usage: httpload PORT CONNECTIONS SECONDS\n"); return 64; }
    int port = atoi(argv[1]), count = atoi(argv[2]), one = 1, poller = epoll_create1(0);
    double seconds = atof(argv[3]), *samples = malloc(sizeof(double) * SAMPLES_MAX);
    struct conn *conns = calloc(count, sizeof *conns);
    long requests = 0, cycles = 0, errors = 0, busy = 0, taken = 0;

    for (int i = 0; i < count; i++) {
        struct conn *c = conns + i;
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
        inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
        c->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(c->fd, (void *)&address, sizeof address)) { perror("connect"); return 1; }
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        sprintf(c->lock, "bench_%d_%d", (int)getpid(), i);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event);
    }
    double start = now(), stop = start + seconds;
    for (int i = 0; i < count; i++) send_next(conns + i);
    struct epoll_event events[256];
    while (now() < stop) {
        int ready = epoll_wait(poller, events, 256, 1000);
        for (int i = 0; i < ready; i++) {
            struct conn *c = events[i].data.ptr;
            int n = read(c->fd, c->in + c->used, sizeof c->in - 1 - c->used);
            if (n <= 0) { fprintf(stderr, "connection closed\n"); return 1; }
            c->used += n;
            c->in[c->used] = 0;
            char *body = whole(c);
            if (!body) continue;
            c->used = 0;
            requests++;
            if (taken < SAMPLES_MAX) samples[taken++] = now() - c->sent;
            if (strstr(body, "BUSY_RETRY")) {
                busy++;
            } else if (!strstr(body, DONE[c->step]) || (c->step == ACQUIRE && !keep_lease(c, body))) {
                if (!errors++) fprintf(stderr, "%s was answered: %s", ACTIONS[c->step], body);
                c->step = ACQUIRE;
            } else {
                cycles += c->step == RELEASE;
                c->step = c->step == RELEASE ? ACQUIRE : c->step + 1;
            }
            send_next(c);
        }
    }
    double took = now() - start;
    if (!taken) { fprintf(stderr, "no answer at all\n"); return 1; }
    qsort(samples, taken, sizeof(double), compare);
    printf("requests/s %.0f cycles/s %.0f errors %ld busy %ld p50 %.1f p99 %.1f p99.9 %.1f\n", requests / took,
           cycles / took, errors, busy, samples[taken / 2] * 1e6, samples[(long)(taken * .99)] * 1e6,
           samples[(long)(taken * .999)] * 1e6);
    return 0;
}
