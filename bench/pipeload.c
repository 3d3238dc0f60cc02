/* pipeload: a pipelined load on one connection. One write carries DEPTH acquires of DEPTH keys; when all answers are
 * there, one write carries DEPTH releases; and so on.
 *   pipeload line  PORT DEPTH SECONDS    the dflock line protocol (l, then r with the token of the answer)
 *   pipeload redis PORT DEPTH SECONDS    SET key token NX PX, then the compare-and-delete script
 * Prints one line: ops/s and errors.
 * Build: cc -O2 -o pipeload pipeload.c */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DEPTH_MAX 4096
#define FRAME_MAX 256
static const char TOKEN[] = "0001a3f217b3c4d87f3c1f2b3e9a8d6e";
static const char LOAD[] =
    "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$93\r\n"
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end\r\n";
static char in[DEPTH_MAX * FRAME_MAX], out[DEPTH_MAX * FRAME_MAX], tokens[DEPTH_MAX][80], sha[41];
static int fd, redis;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Write all, then read until `lines` whole lines are in `in`. */
static void exchange(int bytes, int lines) {
    int sent = 0, used = 0;
    while (sent < bytes) {
        int n = write(fd, out + sent, bytes - sent);
        if (n <= 0) { perror("write"); exit(1); }
        sent += n;
    }
    while (lines > 0) {
        int n = read(fd, in + used, sizeof in - 1 - used);
        if (n <= 0) { fprintf(stderr, "connection closed\n"); exit(1); }
        for (int i = used; i < used + n; i++) lines -= in[i] == '\n';
        used += n;
    }
    in[used] = 0;
}

static int write_acquire(char *at, int key) {
    if (!redis) return sprintf(at, "l\npipe_%04d\n30\n", key);
    return sprintf(at, "*6\r\n$3\r\nSET\r\n$9\r\npipe_%04d\r\n$32\r\n%s\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n10000\r\n", key, TOKEN);
}

static int write_release(char *at, int key) {
    if (!redis) return sprintf(at, "r\npipe_%04d\n%s\n", key, tokens[key]);
    return sprintf(at, "*5\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n$9\r\npipe_%04d\r\n$32\r\n%s\r\n", sha, key, TOKEN);
}

static long read_grants(int depth) {
    long errors = 0;
    char *line = in;
    for (int i = 0; i < depth; i++, line = strchr(line, '\n') + 1)
        errors += redis ? line[0] != '+' : sscanf(line, "ok %79s", tokens[i]) != 1;
    return errors;
}

static long read_releases(int depth) {
    long errors = 0;
    char *line = in;
    for (int i = 0; i < depth; i++, line = strchr(line, '\n') + 1)
        errors += strncmp(line, redis ? ":1" : "ok", 2) != 0;
    return errors;
}

int main(int argc, char **argv) {
    if (argc < 5) { fprintf(stderr, "usage: pipeload line|redis PORT DEPTH SECONDS\n"); return 64; }
    redis = !strcmp(argv[1], "redis");
    int depth = atoi(argv[3]), one = 1;
    double seconds = atof(argv[4]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
    long ops = 0, errors = 0;

    if (depth < 1 || depth > DEPTH_MAX) { fprintf(stderr, "DEPTH is 1 to %d\n", DEPTH_MAX); return 64; }
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (void *)&address, sizeof address)) { perror("connect"); return 1; }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (redis) {
        memcpy(out, LOAD, sizeof LOAD);
        exchange(sizeof LOAD - 1, 2);
        if (sscanf(in, "$40\r\n%40s", sha) != 1) { fprintf(stderr, "no script: %s", in); return 1; }
    }
    double start = now(), stop = start + seconds;
    while (now() < stop) {
        int used = 0;
        for (int i = 0; i < depth; i++) used += write_acquire(out + used, i);
        exchange(used, depth);
        errors += read_grants(depth);
        used = 0;
        for (int i = 0; i < depth; i++) used += write_release(out + used, i);
        exchange(used, depth);
        errors += read_releases(depth);
        ops += 2 * depth;
    }
    printf("ops/s %.0f errors %ld\n", ops / (now() - start), errors);
    return 0;
}
