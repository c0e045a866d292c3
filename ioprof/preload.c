/* Count the reads of a process, file by file, in a shared mapping of a file of its own.
 *
 * The counts are in that file however the process ends: nothing is written at exit. A forked process gets a new file.
 * counters.py reads the file and describes its format.
 *
 * Results, errno and file descriptors of all calls are those without this library. A read takes no lock, and the counts
 * of reads in a signal handler are complete. What cannot be stored is counted as lost.
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#undef fread_unlocked /* a macro with optimisation */
#undef fgets_unlocked

#if !defined(__linux__) || __SIZEOF_POINTER__ != 8
#error "ioprof counts on 64-bit Linux only"
#endif

enum { BLOCK_BYTES = 65536, MOST_BLOCKS = 2048, MOST_FDS = 65536, SIZES = 10, CACHED = 8, INHERITED = 256 };
enum { FILES = 1, READS = 2 }; /* kinds of blocks */
static const uint64_t STRETCH_NS = 10000000; /* reads of one thread from one file within this time are one stretch */

typedef _Atomic uint64_t count_t;

struct header { /* all of the first block */
    char magic[8];
    uint64_t pid, parent, begin_ns;
    uint64_t loader_bytes; /* read before this library was loaded */
    count_t blocks;        /* including this one */
    count_t other_reads, other_bytes, other_ns; /* of pipes, sockets and devices */
    count_t lost_files, lost_stretches;         /* not stored for want of space */
    char command[2048];
};

struct block {
    uint32_t kind;
    _Atomic uint32_t used; /* bytes of files, or number of stretches */
};

struct file {
    uint32_t record_bytes, id;
    count_t opens, reads, bytes, ns, open_ns, sequential, maps, mapped_bytes, size;
    count_t sizes[SIZES];
    uint64_t path_bytes;
    char path[];
};

struct stretch {
    uint32_t file;
    _Atomic uint32_t reads;
    count_t begin_ns, end_ns, bytes, ns;
};
enum { STRETCHES = (BLOCK_BYTES - sizeof(struct block)) / sizeof(struct stretch) };

/* An open file description (open(2)): a file and a position in it, shared after dup() and fork(). */
struct description {
    struct file *file;
    uint32_t users, generation;
    _Atomic int64_t position, expected; /* of the next read; of a sequential read */
    struct description *next;           /* in the list of free ones */
};

struct known { /* entry of a hash table, by a path whose links are not resolved */
    uint64_t device, inode, given;
    struct file *file;
};

static struct header *header;
static struct block *mapped[MOST_BLOCKS];
static struct block *files_block;
static struct block *_Atomic reads_block;
static char counters_folder[4000], counters_path[4096];
static pid_t own_pid;
static uint32_t num_files, generation;
static struct description *_Atomic of_fd[MOST_FDS];
static int highest_fd = -1;
static struct description *free_descriptions;
static struct known *known;
static struct file **by_path;
static uint64_t tables_size, known_used; /* a power of two; entries of `known` */

enum { UNKNOWN, COUNTING, OFF };
static _Atomic int state;
static _Atomic int locked;

static __thread int inside __attribute__((tls_model("initial-exec")));
static __thread int cancel_state __attribute__((tls_model("initial-exec")));
static __thread struct {
    uint32_t generation;
    struct stretch *of[CACHED];
} recent __attribute__((tls_model("initial-exec")));

/* The functions that ours replace. */
#define REAL(name) static __typeof__(name) *real_##name
REAL(open); REAL(open64); REAL(openat); REAL(openat64); REAL(creat); REAL(creat64);
REAL(read); REAL(pread); REAL(pread64); REAL(readv); REAL(preadv); REAL(preadv64); REAL(preadv2); REAL(preadv64v2);
REAL(lseek); REAL(lseek64); REAL(mmap); REAL(mmap64); REAL(close); REAL(dup); REAL(dup2); REAL(dup3);
REAL(sendfile); REAL(sendfile64); REAL(copy_file_range); REAL(splice);
REAL(fopen); REAL(fopen64); REAL(freopen); REAL(freopen64); REAL(fclose);
REAL(fread); REAL(fread_unlocked); REAL(fgets); REAL(fgets_unlocked); REAL(getline); REAL(getdelim); REAL(__getdelim);
REAL(fseek); REAL(fseeko); REAL(fseeko64); REAL(rewind); REAL(fsetpos); REAL(fsetpos64); REAL(ftello);
static int (*real_fcntl)(int, int, ...), (*real_fcntl64)(int, int, ...);
static int (*real___open_2)(const char *, int), (*real___open64_2)(const char *, int);
static int (*real___openat_2)(int, const char *, int), (*real___openat64_2)(int, const char *, int);
static ssize_t (*real___read_chk)(int, void *, size_t, size_t);
static ssize_t (*real___pread_chk)(int, void *, size_t, off_t, size_t);
static ssize_t (*real___pread64_chk)(int, void *, size_t, off64_t, size_t);
static size_t (*real___fread_chk)(void *, size_t, size_t, size_t, FILE *);
static size_t (*real___fread_unlocked_chk)(void *, size_t, size_t, size_t, FILE *);
static char *(*real___fgets_chk)(char *, size_t, int, FILE *);
static char *(*real___fgets_unlocked_chk)(char *, size_t, int, FILE *);
static int (*real_close_range)(unsigned, unsigned, int);
static void (*real_closefrom)(int);

static void find_real(void) {
#define FIND(name) *(void **)&real_##name = dlsym(RTLD_NEXT, #name)
    FIND(open); FIND(open64); FIND(openat); FIND(openat64); FIND(creat); FIND(creat64);
    FIND(read); FIND(pread); FIND(pread64); FIND(readv); FIND(preadv); FIND(preadv64); FIND(preadv2); FIND(preadv64v2);
    FIND(lseek); FIND(lseek64); FIND(mmap); FIND(mmap64); FIND(close); FIND(dup); FIND(dup2); FIND(dup3);
    FIND(sendfile); FIND(sendfile64); FIND(copy_file_range); FIND(splice);
    FIND(fopen); FIND(fopen64); FIND(freopen); FIND(freopen64); FIND(fclose);
    FIND(fread); FIND(fread_unlocked); FIND(fgets); FIND(fgets_unlocked); FIND(getline); FIND(getdelim); FIND(__getdelim);
    FIND(fseek); FIND(fseeko); FIND(fseeko64); FIND(rewind); FIND(fsetpos); FIND(fsetpos64); FIND(ftello);
    FIND(fcntl); FIND(fcntl64);
    FIND(__open_2); FIND(__open64_2); FIND(__openat_2); FIND(__openat64_2);
    FIND(__read_chk); FIND(__pread_chk); FIND(__pread64_chk);
    FIND(__fread_chk); FIND(__fread_unlocked_chk); FIND(__fgets_chk); FIND(__fgets_unlocked_chk);
    FIND(close_range); FIND(closefrom);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void add(count_t *to, uint64_t number) { atomic_fetch_add_explicit(to, number, memory_order_relaxed); }

/* Lock for changes of tables; not reentrant: it fails in a signal handler of a thread that holds it. */
static int enter(void) {
    if (inside) return 0;
    inside = 1;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    while (atomic_exchange_explicit(&locked, 1, memory_order_acquire)) sched_yield();
    return 1;
}

static void leave(void) {
    atomic_store_explicit(&locked, 0, memory_order_release);
    pthread_setcancelstate(cancel_state, NULL);
    inside = 0;
}

/* The next block of the file, or NULL without space: pages are allocated first, because a write to a page without space
 * on disk would end the program with SIGBUS. A file without space for one block stays empty. */
static struct block *grow(uint32_t kind) {
    uint64_t blocks = header ? atomic_load(&header->blocks) : 0;
    off_t offset = (off_t)(blocks * BLOCK_BYTES);
    struct rlimit limit;
    if (blocks >= MOST_BLOCKS) return NULL;
    int fd = real_open(counters_path, O_RDWR | O_CLOEXEC | (header ? 0 : O_CREAT | O_EXCL), 0600);
    if (fd < 0) return NULL;
    struct block *block = MAP_FAILED;
    int has_room = getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= (rlim_t)offset + BLOCK_BYTES;
    if (has_room && posix_fallocate(fd, offset, BLOCK_BYTES) == 0)
        block = real_mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
    real_close(fd);
    if (block == MAP_FAILED) return NULL;
    mapped[blocks] = block;
    if (header) {
        block->kind = kind;
        atomic_store(&header->blocks, blocks + 1);
    }
    return block;
}

static size_t slurp(const char *path, char *into, size_t size) {
    int fd = real_open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : real_read(fd, into, size - 1);
    if (fd >= 0) real_close(fd);
    if (got < 0) got = 0;
    into[got] = 0;
    return (size_t)got;
}

/* Make a new counters file for this process; return 0 on failure. */
static int begin(void) {
    if (!counters_folder[0]) { /* a program may clear its environment before it forks */
        const char *folder = getenv("IOPROF_COUNTERS");
        if (!folder || folder[0] != '/' || strlen(folder) >= sizeof counters_folder) return 0;
        strcpy(counters_folder, folder);
    }
    own_pid = getpid();
    uint64_t begin_ns = now_ns();
    int length = snprintf(counters_path, sizeof counters_path, "%s/%d-%llu", counters_folder, own_pid, (unsigned long long)begin_ns);
    if (length < 0 || length >= (int)sizeof counters_path) return 0;
    header = NULL;
    files_block = NULL;
    atomic_store(&reads_block, NULL);
    num_files = 0;
    generation++;
    struct header *made = (struct header *)grow(0);
    if (!made) return 0;
    made->pid = (uint64_t)own_pid;
    made->parent = (uint64_t)getppid();
    made->begin_ns = begin_ns;
    slurp("/proc/self/cmdline", made->command, sizeof made->command);
    atomic_store(&made->blocks, 1);
    memcpy(made->magic, "ioprof1", 8);
    header = made;
    return 1;
}

static uint64_t hash_of(const char *text, size_t length) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
    return hash;
}

static void *zeros(size_t bytes) {
    void *table = real_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return table == MAP_FAILED ? NULL : table;
}

static void drop_tables(void) {
    if (tables_size) {
        munmap(known, tables_size * sizeof *known);
        munmap(by_path, tables_size * sizeof *by_path);
    }
    tables_size = 0;
}

static uint64_t hash_of_known(struct known one) {
    return (one.device * 31 + one.inode + one.given) * 11400714819323198485u >> 20;
}

static void put_known(struct known *table, uint64_t size, struct known one) {
    uint64_t at = hash_of_known(one);
    while (table[at & (size - 1)].file) at++;
    table[at & (size - 1)] = one;
}

static void put_path(struct file **table, uint64_t size, struct file *file) {
    uint64_t at = hash_of(file->path, file->path_bytes);
    while (table[at & (size - 1)]) at++;
    table[at & (size - 1)] = file;
}

/* Keep both tables at least half empty; return 0 without memory. */
static int have_room(void) {
    if (2 * (known_used + 1) <= tables_size && 2 * ((uint64_t)num_files + 1) <= tables_size) return 1;
    uint64_t size = tables_size ? 2 * tables_size : 4096;
    struct known *wider = zeros(size * sizeof *wider);
    struct file **paths = zeros(size * sizeof *paths);
    if (!wider || !paths) {
        if (wider) munmap(wider, size * sizeof *wider);
        return 0;
    }
    for (uint64_t i = 0; i < tables_size; i++) {
        if (known[i].file) put_known(wider, size, known[i]);
        if (by_path[i]) put_path(paths, size, by_path[i]);
    }
    drop_tables();
    known = wider;
    by_path = paths;
    tables_size = size;
    return 1;
}

static struct file *new_file(const char *path, size_t length) {
    uint32_t bytes = (uint32_t)((sizeof(struct file) + length + 1 + 7) & ~(size_t)7);
    uint32_t used = files_block ? atomic_load(&files_block->used) : 0;
    if (!files_block || sizeof(struct block) + used + bytes > BLOCK_BYTES) {
        struct block *block = grow(FILES);
        if (!block) return NULL;
        files_block = block;
        used = 0;
    }
    struct file *file = (struct file *)((char *)(files_block + 1) + used);
    file->record_bytes = bytes;
    file->id = num_files++;
    file->path_bytes = length;
    memcpy(file->path, path, length);
    atomic_store_explicit(&files_block->used, used + bytes, memory_order_release);
    put_path(by_path, tables_size, file);
    return file;
}

static struct file *file_of_path(const char *path, size_t length) {
    if (!have_room()) return NULL;
    uint64_t at = hash_of(path, length);
    for (struct file *file; (file = by_path[at & (tables_size - 1)]); at++)
        if (file->path_bytes == length && memcmp(file->path, path, length) == 0) return file;
    return new_file(path, length);
}

/* The file of a descriptor; its real path is looked up once for each name by which it is opened. */
static struct file *file_of(int fd, const struct stat *about, const char *given) {
    if (!have_room()) return NULL;
    struct known one = {about->st_dev, about->st_ino, hash_of(given, strlen(given)), NULL};
    uint64_t at = hash_of_known(one);
    for (struct known *found; (found = &known[at & (tables_size - 1)])->file; at++)
        if (found->device == one.device && found->inode == one.inode && found->given == one.given) return found->file;
    char link[40], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path);
    if (length < 0) {
        length = (ssize_t)strnlen(given, sizeof path);
        memcpy(path, given, (size_t)length);
    }
    one.file = file_of_path(path, (size_t)length);
    if (!one.file) return NULL;
    put_known(known, tables_size, one);
    known_used++;
    return one.file;
}

static void release(int fd) {
    struct description *old = atomic_exchange(&of_fd[fd], NULL);
    if (old && --old->users == 0) {
        old->next = free_descriptions;
        free_descriptions = old;
    }
}

static struct description *new_description(void) {
    if (!free_descriptions) {
        enum { AT_ONCE = 1024 };
        struct description *more = zeros(AT_ONCE * sizeof *more);
        if (!more) return NULL;
        for (int i = 0; i < AT_ONCE; i++) {
            more[i].next = free_descriptions;
            free_descriptions = &more[i];
        }
    }
    struct description *one = free_descriptions;
    free_descriptions = one->next;
    return one;
}

static void put_fd(int fd, struct description *one) {
    release(fd);
    one->users++;
    atomic_store(&of_fd[fd], one);
    if (fd > highest_fd) highest_fd = fd;
}

/* Register a descriptor if it is that of a readable regular file. */
static void track(int fd, const char *given, int64_t position, uint64_t begun_ns) {
    struct stat about;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        release(fd);
        return;
    }
    struct file *file = file_of(fd, &about, given);
    struct description *one = file ? new_description() : NULL;
    if (!one) {
        add(&header->lost_files, 1);
        release(fd);
        return;
    }
    one->file = file;
    one->users = 0;
    one->generation = generation;
    atomic_store(&one->position, position);
    atomic_store(&one->expected, position);
    put_fd(fd, one);
    if ((uint64_t)about.st_size > atomic_load(&file->size)) atomic_store(&file->size, (uint64_t)about.st_size);
    if (begun_ns) {
        add(&file->opens, 1);
        add(&file->open_ns, now_ns() - begun_ns);
    }
}

/* Give a child counters of its own; it keeps the names of inherited files. */
static void after_fork(void) {
    if (atomic_load(&state) != COUNTING) return;
    static struct block *old[MOST_BLOCKS]; /* a thread that forks may have a small stack */
    uint64_t num_old = atomic_load(&header->blocks);
    int was_inside = inside;
    inside = 1;
    memcpy(old, mapped, num_old * sizeof *old);
    atomic_store(&locked, 0);
    drop_tables();
    known_used = 0;
    if (begin()) {
        for (int fd = 0; fd <= highest_fd; fd++) {
            struct description *one = atomic_load(&of_fd[fd]);
            if (!one || one->generation == generation) continue;
            uint64_t size = atomic_load(&one->file->size);
            one->file = file_of_path(one->file->path, one->file->path_bytes);
            one->generation = generation;
            if (one->file) {
                atomic_store(&one->file->size, size);
            } else {
                add(&header->lost_files, 1);
                atomic_store(&of_fd[fd], NULL);
            }
        }
    } else {
        atomic_store(&state, OFF);
    }
    for (uint64_t i = 0; i < num_old; i++) munmap(old[i], BLOCK_BYTES);
    inside = was_inside;
}

static void start(void) {
    if (inside) return; /* reads by dlsym() itself */
    inside = 1;
    while (atomic_exchange_explicit(&locked, 1, memory_order_acquire)) sched_yield();
    if (atomic_load(&state) == UNKNOWN) {
        int saved = errno;
        find_real();
        int is_on = begin();
        if (is_on) {
            char text[64];
            size_t got = slurp("/proc/thread-self/io", text, sizeof text);
            if (sscanf(text, "rchar: %llu", (unsigned long long *)&header->loader_bytes) == 1) header->loader_bytes += got;
            pthread_atfork(NULL, NULL, after_fork);
            for (int fd = 0; fd < INHERITED; fd++) {
                int flags = real_fcntl(fd, F_GETFL);
                if (flags >= 0 && (flags & O_ACCMODE) != O_WRONLY && !(flags & O_PATH))
                    track(fd, "", real_lseek(fd, 0, SEEK_CUR), 0);
            }
        }
        atomic_store(&state, is_on ? COUNTING : OFF);
        errno = saved;
    }
    atomic_store_explicit(&locked, 0, memory_order_release);
    inside = 0;
}

__attribute__((constructor)) static void loaded(void) {
    if (atomic_load(&state) == UNKNOWN) start();
}

/* A function that is called during the initialisation is only looked up, and not counted. */
#define NEEDED(name) \
    do { \
        if (__builtin_expect(atomic_load_explicit(&state, memory_order_acquire) == UNKNOWN, 0)) start(); \
        if (__builtin_expect(!real_##name, 0)) *(void **)&real_##name = dlsym(RTLD_NEXT, #name); \
    } while (0)
#define IS_COUNTING (atomic_load_explicit(&state, memory_order_relaxed) == COUNTING)

static struct stretch *new_stretch(void) {
    for (;;) {
        struct block *block = atomic_load_explicit(&reads_block, memory_order_acquire);
        if (block) {
            uint32_t at = atomic_fetch_add(&block->used, 1);
            if (at < STRETCHES) return (struct stretch *)(block + 1) + at;
            atomic_store(&block->used, STRETCHES);
        }
        int saved = errno;
        if (!enter()) return NULL;
        struct block *next = atomic_load(&reads_block);
        if (next == block && (next = grow(READS))) atomic_store(&reads_block, next);
        leave();
        errno = saved;
        if (!next) return NULL;
    }
}

static void add_stretch(struct file *file, uint64_t bytes, uint64_t begin_ns, uint64_t end_ns) {
    if (recent.generation != generation) {
        memset(recent.of, 0, sizeof recent.of);
        recent.generation = generation;
    }
    struct stretch **at = &recent.of[file->id % CACHED], *one = *at;
    if (!one || one->file != file->id || end_ns - atomic_load_explicit(&one->begin_ns, memory_order_relaxed) > STRETCH_NS) {
        if (!(one = new_stretch())) {
            add(&header->lost_stretches, 1);
            return;
        }
        one->file = file->id;
        atomic_store_explicit(&one->begin_ns, begin_ns, memory_order_relaxed);
        *at = one;
    }
    atomic_fetch_add_explicit(&one->reads, 1, memory_order_relaxed);
    add(&one->bytes, bytes);
    add(&one->ns, end_ns - begin_ns);
    atomic_store_explicit(&one->end_ns, end_ns, memory_order_relaxed);
}

/* Darshan's classes: 0 to 100 bytes, to 1 kB, 10 kB, 100 kB, 1 MB, 4 MB, 10 MB, 100 MB, 1 GB and more, in powers of 2. */
static int size_class(uint64_t bytes) {
    static const uint64_t up_to[SIZES - 1] = {
        100, 1u << 10, 10u << 10, 100u << 10, 1u << 20, 4u << 20, 10u << 20, 100u << 20, 1u << 30};
    int class = 0;
    while (class < SIZES - 1 && bytes > up_to[class]) class++;
    return class;
}

static struct description *description_of(int fd) {
    return fd >= 0 && fd < MOST_FDS ? atomic_load_explicit(&of_fd[fd], memory_order_acquire) : NULL;
}

/* Count a read of so many bytes at an offset, or at the file's position if that is -1. */
static void count_read(int fd, int64_t offset, uint64_t bytes, uint64_t begin_ns) {
    uint64_t end_ns = now_ns();
    struct description *one = description_of(fd);
    if (!one) {
        add(&header->other_reads, 1);
        add(&header->other_bytes, bytes);
        add(&header->other_ns, end_ns - begin_ns);
        return;
    }
    struct file *file = one->file;
    if (offset < 0) offset = atomic_fetch_add_explicit(&one->position, (int64_t)bytes, memory_order_relaxed);
    int64_t wanted = atomic_exchange_explicit(&one->expected, offset + (int64_t)bytes, memory_order_relaxed);
    if (wanted == offset) add(&file->sequential, 1);
    add(&file->reads, 1);
    add(&file->bytes, bytes);
    add(&file->ns, end_ns - begin_ns);
    add(&file->sizes[size_class(bytes)], 1);
    add_stretch(file, bytes, begin_ns, end_ns);
}

/* In a child that shares its parent's memory until exec (vfork), the tables must not change. */
static int may_change(void) { return getpid() == own_pid; }

static void opened(int fd, const char *given, int flags, uint64_t begun_ns) {
    if (fd < 0 || fd >= MOST_FDS || !IS_COUNTING) return;
    int saved = errno;
    if (may_change() && enter()) {
        if ((flags & O_ACCMODE) == O_WRONLY || flags & O_PATH)
            release(fd);
        else
            track(fd, given, 0, begun_ns);
        leave();
    }
    errno = saved;
}

static void closing(int fd) {
    if (!description_of(fd) || !IS_COUNTING) return;
    int saved = errno;
    if (may_change() && enter()) {
        release(fd);
        leave();
    }
    errno = saved;
}

static void closing_range(unsigned first, unsigned last) {
    for (int fd = (int)first; fd >= 0 && fd <= highest_fd && (unsigned)fd <= last; fd++) closing(fd);
}

static void duplicated(int old, int fd) {
    if (fd < 0 || fd >= MOST_FDS || old == fd || !IS_COUNTING) return;
    struct description *one = description_of(old);
    if (!one && !description_of(fd)) return;
    int saved = errno;
    if (may_change() && enter()) {
        if (one)
            put_fd(fd, one);
        else
            release(fd);
        leave();
    }
    errno = saved;
}

static int open_mode(int flags, va_list rest) {
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, int) : 0;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        NEEDED(name); \
        va_list rest; \
        va_start(rest, flags); \
        int mode = open_mode(flags, rest); \
        va_end(rest); \
        uint64_t begun_ns = now_ns(); \
        int fd = real_##name(path, flags, mode); \
        opened(fd, path, flags, begun_ns); \
        return fd; \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        NEEDED(name); \
        va_list rest; \
        va_start(rest, flags); \
        int mode = open_mode(flags, rest); \
        va_end(rest); \
        uint64_t begun_ns = now_ns(); \
        int fd = real_##name(folder, path, flags, mode); \
        opened(fd, path, flags, begun_ns); \
        return fd; \
    }
OPENAT(openat)
OPENAT(openat64)

#define CREAT(name) \
    int name(const char *path, mode_t mode) { \
        NEEDED(name); \
        int fd = real_##name(path, mode); \
        opened(fd, path, O_WRONLY, 0); \
        return fd; \
    }
CREAT(creat)
CREAT(creat64)

#define OPEN_2(name, folder_type, folder) \
    int name(folder_type const char *path, int flags); \
    int name(folder_type const char *path, int flags) { \
        NEEDED(name); \
        uint64_t begun_ns = now_ns(); \
        int fd = real_##name(folder path, flags); \
        opened(fd, path, flags, begun_ns); \
        return fd; \
    }
#define NONE
#define COMMA ,
OPEN_2(__open_2, NONE, NONE)
OPEN_2(__open64_2, NONE, NONE)
OPEN_2(__openat_2, int folder COMMA, folder COMMA)
OPEN_2(__openat64_2, int folder COMMA, folder COMMA)

/* Define a function that reads: its prototype, the call, and the offset. */
#define READ(name, parameters, arguments, offset) \
    ssize_t name parameters { \
        NEEDED(name); \
        if (!IS_COUNTING) return real_##name arguments; \
        uint64_t begin_ns = now_ns(); \
        ssize_t got = real_##name arguments; \
        if (got >= 0) count_read(fd, offset, (uint64_t)got, begin_ns); \
        return got; \
    }
READ(read, (int fd, void *into, size_t size), (fd, into, size), -1)
READ(pread, (int fd, void *into, size_t size, off_t offset), (fd, into, size, offset), offset)
READ(pread64, (int fd, void *into, size_t size, off64_t offset), (fd, into, size, offset), offset)
READ(readv, (int fd, const struct iovec *parts, int count), (fd, parts, count), -1)
READ(preadv, (int fd, const struct iovec *parts, int count, off_t offset), (fd, parts, count, offset), offset)
READ(preadv64, (int fd, const struct iovec *parts, int count, off64_t offset), (fd, parts, count, offset), offset)
READ(preadv2, (int fd, const struct iovec *parts, int count, off_t offset, int flags), (fd, parts, count, offset, flags), offset)
READ(preadv64v2, (int fd, const struct iovec *parts, int count, off64_t offset, int flags), (fd, parts, count, offset, flags), offset)
ssize_t __read_chk(int fd, void *into, size_t size, size_t room);
ssize_t __pread_chk(int fd, void *into, size_t size, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *into, size_t size, off64_t offset, size_t room);
READ(__read_chk, (int fd, void *into, size_t size, size_t room), (fd, into, size, room), -1)
READ(__pread_chk, (int fd, void *into, size_t size, off_t offset, size_t room), (fd, into, size, offset, room), offset)
READ(__pread64_chk, (int fd, void *into, size_t size, off64_t offset, size_t room), (fd, into, size, offset, room), offset)

/* Copies from a file by the kernel are reads, too. */
#define COPY(name, parameters, arguments, offset_type, offset) \
    ssize_t name parameters { \
        NEEDED(name); \
        if (!IS_COUNTING) return real_##name arguments; \
        int64_t from = offset ? (int64_t)*offset : -1; \
        uint64_t begin_ns = now_ns(); \
        ssize_t got = real_##name arguments; \
        if (got >= 0) count_read(fd, from, (uint64_t)got, begin_ns); \
        return got; \
    }
COPY(sendfile, (int out, int fd, off_t *offset, size_t size), (out, fd, offset, size), off_t, offset)
COPY(sendfile64, (int out, int fd, off64_t *offset, size_t size), (out, fd, offset, size), off64_t, offset)
COPY(copy_file_range, (int fd, off64_t *offset, int out, off64_t *to, size_t size, unsigned flags),
     (fd, offset, out, to, size, flags), off64_t, offset)
COPY(splice, (int fd, off64_t *offset, int out, off64_t *to, size_t size, unsigned flags),
     (fd, offset, out, to, size, flags), off64_t, offset)

#define LSEEK(name, type) \
    type name(int fd, type offset, int whence) { \
        NEEDED(name); \
        type at = real_##name(fd, offset, whence); \
        struct description *one = at >= 0 && IS_COUNTING ? description_of(fd) : NULL; \
        if (one) atomic_store_explicit(&one->position, at, memory_order_relaxed); \
        return at; \
    }
LSEEK(lseek, off_t)
LSEEK(lseek64, off64_t)

#define MMAP(name, type) \
    void *name(void *address, size_t length, int protection, int flags, int fd, type offset) { \
        NEEDED(name); \
        void *at = real_##name(address, length, protection, flags, fd, offset); \
        if (at == MAP_FAILED || flags & MAP_ANONYMOUS || !IS_COUNTING) return at; \
        struct description *one = description_of(fd); \
        if (one) { \
            add(&one->file->maps, 1); \
            add(&one->file->mapped_bytes, length); \
        } \
        return at; \
    }
MMAP(mmap, off_t)
MMAP(mmap64, off64_t)

int close(int fd) {
    NEEDED(close);
    closing(fd);
    return real_close(fd);
}

int close_range(unsigned first, unsigned last, int flags) {
    NEEDED(close_range);
    if (!(flags & 4)) closing_range(first, last); /* CLOSE_RANGE_CLOEXEC */
    return real_close_range(first, last, flags);
}

void closefrom(int first) {
    NEEDED(closefrom);
    closing_range(first < 0 ? 0 : (unsigned)first, ~0u);
    real_closefrom(first);
}

int dup(int old) {
    NEEDED(dup);
    int fd = real_dup(old);
    duplicated(old, fd);
    return fd;
}

int dup2(int old, int wanted) {
    NEEDED(dup2);
    int fd = real_dup2(old, wanted);
    duplicated(old, fd);
    return fd;
}

int dup3(int old, int wanted, int flags) {
    NEEDED(dup3);
    int fd = real_dup3(old, wanted, flags);
    duplicated(old, fd);
    return fd;
}

#define FCNTL(name) \
    int name(int fd, int command, ...) { \
        NEEDED(name); \
        va_list rest; \
        va_start(rest, command); \
        void *argument = va_arg(rest, void *); \
        va_end(rest); \
        int result = real_##name(fd, command, argument); \
        if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) duplicated(fd, result); \
        return result; \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

/* Streams: bytes that the program gets from them. Their read-ahead uses no function of ours. */
static int flags_of(const char *mode) { return *mode == 'r' || strchr(mode, '+') ? O_RDONLY : O_WRONLY; }

static int fd_of(FILE *stream) {
    int saved = errno;
    int fd = stream ? fileno(stream) : -1;
    errno = saved;
    return fd;
}

static void count_stream(FILE *stream, uint64_t bytes, uint64_t begin_ns) {
    int fd = fd_of(stream);
    if (fd >= 0) count_read(fd, -1, bytes, begin_ns);
}

#define FOPEN(name) \
    FILE *name(const char *path, const char *mode) { \
        NEEDED(name); \
        uint64_t begun_ns = now_ns(); \
        FILE *stream = real_##name(path, mode); \
        if (stream) opened(fd_of(stream), path, flags_of(mode), begun_ns); \
        return stream; \
    }
FOPEN(fopen)
FOPEN(fopen64)

#define FREOPEN(name) \
    FILE *name(const char *path, const char *mode, FILE *old) { \
        NEEDED(name); \
        closing(fd_of(old)); \
        uint64_t begun_ns = now_ns(); \
        FILE *stream = real_##name(path, mode, old); \
        if (stream && path) opened(fd_of(stream), path, flags_of(mode), begun_ns); \
        return stream; \
    }
FREOPEN(freopen)
FREOPEN(freopen64)

/* The position of a stream shows what other functions have read from it. */
int fclose(FILE *stream) {
    NEEDED(fclose);
    int fd = fd_of(stream);
    struct description *one = IS_COUNTING ? description_of(fd) : NULL;
    if (one) {
        int saved = errno;
        int64_t rest = (real_fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY ? real_ftello(stream) : -1;
        rest -= atomic_load_explicit(&one->position, memory_order_relaxed);
        if (rest > 0) count_read(fd, -1, (uint64_t)rest, now_ns());
        errno = saved;
        closing(fd);
    }
    return real_fclose(stream);
}

#define FREAD(name, room_type, room) \
    size_t name(void *into, room_type size_t size, size_t count, FILE *stream) { \
        NEEDED(name); \
        if (!IS_COUNTING) return real_##name(into, room size, count, stream); \
        uint64_t begin_ns = now_ns(); \
        size_t got = real_##name(into, room size, count, stream); \
        count_stream(stream, got * size, begin_ns); \
        return got; \
    }
size_t __fread_chk(void *into, size_t room, size_t size, size_t count, FILE *stream);
size_t __fread_unlocked_chk(void *into, size_t room, size_t size, size_t count, FILE *stream);
FREAD(fread, NONE, NONE)
FREAD(fread_unlocked, NONE, NONE)
FREAD(__fread_chk, size_t room COMMA, room COMMA)
FREAD(__fread_unlocked_chk, size_t room COMMA, room COMMA)

#define FGETS(name, room_type, room) \
    char *name(char *into, room_type int size, FILE *stream) { \
        NEEDED(name); \
        uint64_t begin_ns = now_ns(); \
        char *got = real_##name(into, room size, stream); \
        if (got && IS_COUNTING) count_stream(stream, strlen(got), begin_ns); \
        return got; \
    }
char *__fgets_chk(char *into, size_t room, int size, FILE *stream);
char *__fgets_unlocked_chk(char *into, size_t room, int size, FILE *stream);
FGETS(fgets, NONE, NONE)
FGETS(fgets_unlocked, NONE, NONE)
FGETS(__fgets_chk, size_t room COMMA, room COMMA)
FGETS(__fgets_unlocked_chk, size_t room COMMA, room COMMA)

#define GETDELIM(name) \
    ssize_t name(char **line, size_t *size, int end, FILE *stream) { \
        NEEDED(name); \
        uint64_t begin_ns = now_ns(); \
        ssize_t got = real_##name(line, size, end, stream); \
        if (got > 0 && IS_COUNTING) count_stream(stream, (uint64_t)got, begin_ns); \
        return got; \
    }
GETDELIM(getdelim)
GETDELIM(__getdelim) /* getline() with optimisation */

ssize_t getline(char **line, size_t *size, FILE *stream) {
    NEEDED(getline);
    uint64_t begin_ns = now_ns();
    ssize_t got = real_getline(line, size, stream);
    if (got > 0 && IS_COUNTING) count_stream(stream, (uint64_t)got, begin_ns);
    return got;
}

static void sought(FILE *stream) {
    struct description *one = IS_COUNTING ? description_of(fd_of(stream)) : NULL;
    if (!one) return;
    int saved = errno;
    int64_t at = real_ftello(stream);
    if (at >= 0) atomic_store_explicit(&one->position, at, memory_order_relaxed);
    errno = saved;
}

#define FSEEK(name, type) \
    int name(FILE *stream, type offset, int whence) { \
        NEEDED(name); \
        int result = real_##name(stream, offset, whence); \
        if (result == 0) sought(stream); \
        return result; \
    }
FSEEK(fseek, long)
FSEEK(fseeko, off_t)
FSEEK(fseeko64, off64_t)

#define FSETPOS(name, type) \
    int name(FILE *stream, const type *position) { \
        NEEDED(name); \
        int result = real_##name(stream, position); \
        if (result == 0) sought(stream); \
        return result; \
    }
FSETPOS(fsetpos, fpos_t)
FSETPOS(fsetpos64, fpos64_t)

void rewind(FILE *stream) {
    NEEDED(rewind);
    real_rewind(stream);
    sought(stream);
}
