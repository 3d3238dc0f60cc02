/* connections: new connections at a steady rate; each one asks, reads the answer and is closed.
 *   connections PORT RATE SECONDS health     GET /healthz
 *   connections PORT RATE SECONDS lock       acquire, then release, on a lock of its own
 * Prints one line: connections/s, errors, inflight (the most at once), time of a connection from its first packet to its
 * last answer in microseconds (p50 p99 max).
 * Build: cc -O2 -o connections connections.c */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 8192
#define ANSWER_S_MAX 10.0
enum step { HEALTH, ACQUIRE, RELEASE, OVER };

struct conn { int fd, used, busy, sent; enum step step; double since; long number, token; char lease[80], in[4096]; };

static struct conn slots[SLOTS];
static int poller, lock_mode;
static long errors, finished, inflight;
static double *samples;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void end(struct conn *c, const char *trouble) {
    if (trouble) {
        if (!errors++) fprintf(stderr, "first error: %s: %s\n", trouble, c->in);
    } else {
        samples[finished++] = now() - c->since;
    }
    close(c->fd);
    c->busy = 0;
    inflight--;
}

static void ask(struct conn *c) {
    char out[1024], body[512], name[64];
    int n;
    sprintf(name, "visit_%d_%ld", (int)getpid(), c->number);
    if (c->step == HEALTH) {
        n = sprintf(out, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    } else {
        if (c->step == ACQUIRE)
            sprintf(body, "{\"owner_id\":\"%s\",\"ttl_ms\":60000}", name);
        else
            sprintf(body, "{\"owner_id\":\"%s\",\"lease_id\":\"%s\",\"fencing_token\":%ld}", name, c->lease, c->token);
        n = sprintf(out, "POST /v1/locks/%s/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %zu\r\n\r\n%s", name,
                    c->step == ACQUIRE ? "acquire" : "release", strlen(body), body);
    }
    c->sent = 1;
    if (write(c->fd, out, n) != n) end(c, "write");
}

static void visit(struct conn *c, int port, long number) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    memset(c, 0, sizeof *c);
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    c->busy = 1;
    c->number = number;
    c->step = lock_mode ? ACQUIRE : HEALTH;
    c->since = now();
    inflight++;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd < 0 || (connect(c->fd, (void *)&address, sizeof address) && errno != EINPROGRESS)) {
        end(c, "connect");
        return;
    }
    struct epoll_event event = {.events = EPOLLOUT, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event);
}

static void answered(struct conn *c) {
    char *body = strstr(c->in, "\r\n\r\n"), *length = strcasestr(c->in, "\r\ncontent-length:"), *found;
    if (!body) return;
    if (!length || length > body) { end(c, "no length"); return; }
    body += 4;
    if (c->used - (body - c->in) < atoi(length + 17)) return;
    if (strncmp(c->in, "HTTP/1.1 200", 12)) { end(c, "status"); return; }
    if (c->step == ACQUIRE) {
        found = strstr(body, "\"lease_id\":\"");
        if (!found || sscanf(found + 12, "%79[^\"]", c->lease) != 1) { end(c, "lease"); return; }
        found = strstr(body, "\"fencing_token\":");
        if (!found || sscanf(found + 16, "%ld", &c->token) != 1) { end(c, "token"); return; }
    }
    if (c->step == RELEASE && !strstr(body, "\"released\":true")) { end(c, "not released"); return; }
    c->step = c->step == ACQUIRE ? RELEASE : OVER;
    c->used = 0;
    if (c->step == OVER) end(c, NULL);
    else ask(c);
}

static void on_event(struct conn *c) {
    int trouble = 0;
    socklen_t size = sizeof trouble;
    if (!c->sent) {
        getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &trouble, &size);
        if (trouble) { end(c, strerror(trouble)); return; }
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &event);
        ask(c);
        return;
    }
    int n = read(c->fd, c->in + c->used, sizeof c->in - 1 - c->used);
    if (n <= 0) { end(c, n ? strerror(errno) : "closed before the answer"); return; }
    c->used += n;
    c->in[c->used] = 0;
    answered(c);
}

static void give_up_on_late_ones(void) {
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].busy && now() - slots[i].since > ANSWER_S_MAX) end(slots + i, "no answer in time");
}

int main(int argc, char **argv) {
    if (argc != 5) { fprintf(stderr, "usage: connections PORT RATE SECONDS health|lock\n"); return 64; }
    int port = atoi(argv[1]), slot = 0;
    double rate = atof(argv[2]), seconds = atof(argv[3]), checked = 0;
    long wanted = rate * seconds + 1, begun = 0, most = 0;
    struct rlimit files;
    lock_mode = !strcmp(argv[4], "lock");
    poller = epoll_create1(0);
    samples = malloc(sizeof(double) * wanted);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);

    double start = now(), last = start;
    struct epoll_event events[256];
    while (begun < wanted || inflight) {
        /* Whoever is due comes now, however slow the answers are: a queue at the door is what is measured. */
        while (begun < wanted && now() >= start + begun / rate) {
            for (int tries = 0; slots[slot].busy && tries < SLOTS; tries++) slot = (slot + 1) % SLOTS;
            if (slots[slot].busy) { fprintf(stderr, "more than %d connections at once\n", SLOTS); return 1; }
            visit(slots + slot, port, begun++);
            last = now();
            if (inflight > most) most = inflight;
        }
        int ready = epoll_wait(poller, events, 256, 1);
        for (int i = 0; i < ready; i++)
            if (((struct conn *)events[i].data.ptr)->busy) on_event(events[i].data.ptr);
        if (now() - checked > 1) { checked = now(); give_up_on_late_ones(); }
    }
    if (!finished) { fprintf(stderr, "no connection got an answer\n"); return 1; }
    qsort(samples, finished, sizeof(double), compare);
    double took = last - start > 0 ? last - start : 1e-9;
    printf("connections/s %.0f errors %ld inflight %ld p50 %.1f p99 %.1f max %.1f\n", (begun - 1) / took, errors, most,
           samples[finished / 2] * 1e6, samples[(long)(finished * .99)] * 1e6, samples[finished - 1] * 1e6);
    return 0;
}
