/* Reads files in the ways that programs do: reader WAY FILE [SIZE]. What it has read comes on stdout, in bytes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STEP = 1000 };
static char buffer[1 << 20];
static long total;

static int opened(const char *path) {
    int fd = open(path, O_RDONLY);
    if (fd < 0) {
        perror(path);
        exit(3);
    }
    return fd;
}

static void read_all(int fd, size_t step) {
    for (ssize_t got; (got = read(fd, buffer, step)) > 0;) total += got;
}

static void *read_at_all_places(void *path) {
    char own[STEP];
    int fd = opened(path);
    long size = 0;
    for (ssize_t got; (got = pread(fd, own, STEP, size)) > 0;) size += got;
    close(fd);
    __atomic_fetch_add(&total, size, __ATOMIC_SEQ_CST);
    return NULL;
}

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static int handled_fd;
static void read_in_handler(int number) {
    (void)number;
    total += read(handled_fd, buffer, 1);
}

/* Numbers of descriptors and of errors, which nobody between may change. */
static int odd_calls(const char *path) {
    char name[4096];
    printf("%d", open(path, O_RDONLY));
    printf(" %d", dup(3));
    printf(" %d %d", open("/no/such/file", O_RDONLY), errno);
    printf(" %zd %d", read(77, buffer, 1), errno);
    printf(" %zd %d", pread(3, buffer, 1, -1), errno);
    printf(" %d %d", dup2(77, 5), errno);
    printf(" %d", fcntl(3, F_DUPFD, 10));
    printf(" %d", fcntl(3, F_GETFD));
    printf(" %d", close(10));
    printf(" %d %d", close(10), errno);
    printf(" %d %d", fopen("/no/such/file", "r") != NULL, errno);
    printf(" %d %d", mmap(NULL, 1, PROT_READ, MAP_SHARED, 77, 0) == MAP_FAILED, errno);
    printf(" %lld %d", (long long)lseek(3, -1, SEEK_SET), errno);
    snprintf(name, sizeof name, "%s.new", path);
    mode_t before = umask(0);
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0640);
    umask(before);
    struct stat about;
    fstat(fd, &about);
    unlink(name);
    printf(" %d %o %zd", fd, about.st_mode & 0777, write(fd, "ab", 2));
    errno = 71;
    ssize_t got = read(3, buffer, 10);
    printf(" %zd %d\n", got, errno);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const char *way = argv[1], *path = argv[2];
    size_t size = argc > 3 ? strtoul(argv[3], NULL, 10) : STEP;
#define WAY(name) if (strcmp(way, name) == 0)
    WAY("odd") return odd_calls(path);
    WAY("read") read_all(opened(path), size);
    WAY("pread") read_at_all_places((void *)path);
    WAY("backwards") {
        int fd = opened(path);
        for (off_t at = lseek(fd, 0, SEEK_END) - (off_t)size; at >= 0; at -= (off_t)size) {
            lseek(fd, at, SEEK_SET);
            total += read(fd, buffer, size);
        }
    }
    WAY("readv") {
        struct iovec parts[2] = {{buffer, size / 2}, {buffer + size, size - size / 2}};
        int fd = opened(path);
        for (ssize_t got; (got = readv(fd, parts, 2)) > 0;) total += got;
    }
    WAY("preadv") {
        struct iovec parts[2] = {{buffer, size / 2}, {buffer + size, size - size / 2}};
        int fd = opened(path);
        for (ssize_t got; (got = preadv(fd, parts, 2, total)) > 0;) total += got;
    }
    WAY("preadv2") {
        struct iovec part = {buffer, size};
        int fd = opened(path);
        for (ssize_t got; (got = preadv2(fd, &part, 1, -1, 0)) > 0;) total += got;
    }
    WAY("direct") {
        int fd = open(path, O_RDONLY | O_DIRECT);
        if (fd < 0) return 4;
        void *aligned = aligned_alloc(4096, 65536);
        for (ssize_t got; (got = read(fd, aligned, 65536)) > 0;) total += got;
    }
    WAY("fread") {
        FILE *stream = fopen(path, "rb");
        for (size_t got; (got = fread(buffer, 1, size, stream)) > 0;) total += (long)got;
        fclose(stream);
    }
    WAY("fread_half") {
        FILE *stream = fopen(path, "r");
        fseek(stream, (long)size, SEEK_SET);
        total += (long)fread(buffer, 1, size, stream);
        fclose(stream);
    }
    WAY("fgets") {
        FILE *stream = fopen(path, "r");
        while (fgets(buffer, (int)size, stream)) total += (long)strlen(buffer);
        fclose(stream);
    }
    WAY("getline") {
        FILE *stream = fopen(path, "r");
        char *line = NULL;
        size_t room = 0;
        for (ssize_t got; (got = getline(&line, &room, stream)) > 0;) total += got;
        fclose(stream);
    }
    WAY("fgetc") {
        FILE *stream = fopen(path, "r");
        while (fgetc(stream) != EOF) total++;
        fclose(stream);
    }
    WAY("fdopen") {
        FILE *stream = fdopen(opened(path), "r");
        for (size_t got; (got = fread(buffer, 1, size, stream)) > 0;) total += (long)got;
        fclose(stream);
    }
    WAY("freopen") {
        stdin = freopen(path, "r", stdin);
        for (size_t got; (got = fread(buffer, 1, size, stdin)) > 0;) total += (long)got;
    }
    WAY("stdin") read_all(0, size);
    WAY("sendfile") {
        int null = open("/dev/null", O_WRONLY), fd = opened(path);
        for (ssize_t got; (got = sendfile(null, fd, NULL, size)) > 0;) total += got;
    }
    WAY("mmap") {
        int fd = opened(path);
        struct stat about;
        fstat(fd, &about);
        const char *all = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        long sum = 0;
        for (off_t at = 0; at < about.st_size; at += 4096) sum += all[at];
        total += about.st_size + (sum == -1);
    }
    WAY("threads") {
        pthread_t threads[8];
        for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, read_at_all_places, (void *)path);
        for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    }
    WAY("fork") {
        int fd = opened(path);
        total += read(fd, buffer, size);
        fflush(stdout);
        if (fork() == 0) {
            read_all(fd, size);
            read_at_all_places((void *)path);
            _exit(0);
        }
        wait(NULL);
        total += 2 * lseek(fd, 0, SEEK_END) - (long)size;
    }
    WAY("vfork") {
        int fd = opened(path);
        total += read(fd, buffer, size);
        if (vfork() == 0) {
            close(fd);
            execlp("true", "true", NULL);
            _exit(127);
        }
        wait(NULL);
        read_all(fd, size);
    }
    WAY("dup") {
        int fd = opened(path), other = dup(fd);
        total += read(fd, buffer, size);
        close(fd);
        total += read(other, buffer, size);
        int third = dup2(other, 50);
        close(other);
        read_all(third, size);
    }
    WAY("killed") {
        read_all(opened(path), size);
        printf("%ld\n", total);
        fflush(stdout);
        kill(getpid(), SIGKILL);
    }
    WAY("deleted") {
        int fd = opened(path);
        unlink(path);
        read_all(fd, size);
    }
    WAY("handler") {
        handled_fd = opened(path);
        signal(SIGALRM, read_in_handler);
        for (int i = 0; i < 100; i++) {
            raise(SIGALRM);
            total += read(handled_fd, buffer, 1);
        }
    }
    WAY("syscall") {
        int fd = opened(path);
        for (long got; (got = syscall(SYS_read, fd, buffer, size)) > 0;) total += got;
    }
    WAY("ring") {
        char parameters[256] = {0};
        if (syscall(425, 4, parameters) < 0) return 5; /* io_uring_setup */
        read_all(opened(path), size);
        getchar();
    }
    /* Nanoseconds of a call, of SIZE of them. */
    WAY("time_reads") {
        int fd = opened(path);
        long begin_ns = now_ns();
        for (size_t i = 0; i < size; i++) total += pread(fd, buffer, 4096, 0);
        printf("%.1f\n", (double)(now_ns() - begin_ns) / (double)size);
        return 0;
    }
    WAY("time_opens") {
        long begin_ns = now_ns();
        for (size_t i = 0; i < size; i++) close(opened(path));
        printf("%.1f\n", (double)(now_ns() - begin_ns) / (double)size);
        return 0;
    }
    WAY("wait") {
        read_all(opened(path), size);
        getchar();
    }
    printf("%ld\n", total);
    return 0;
}
