/* A stand-in for NVIDIA's management library; shapes.h tells what it draws. Device i draws (i + 1) times that.
 *   STAND_IN_DEVICES   number of devices (default 2)
 *   STAND_IN_INSTANT   1: instant power is there as a field value
 *   STAND_IN_MODULE_W  what a module draws next to its GPU, with STAND_IN_INSTANT (default: there is no module)
 *   STAND_IN_COUNTER_TAKES_S   CPU time of a call that asks for the counter (default: next to none)
 *   STAND_IN_LIMIT_W   the power limit of each device (default 400)
 *   STAND_IN_CAPABILITY   the compute capability of each device, such as 9.0 (default: not known)
 *   STAND_IN_MIG       1: the devices are divided by MIG
 *   STAND_IN_VIRTUAL   virtualization mode; 3: divided among virtual machines
 *   STAND_IN_STATE     a folder in which limits are kept, for all processes; power then follows them by the model below
 *   STAND_IN_RIGHTS    what may be set: all (default), application-clocks, none
 *   STAND_IN_PROCESSES   the processes that compute, such as 0:4711 1:4712, by device (default: none)
 *   STAND_IN_TAKES_S   how long after it was set a power limit is in force (default 0)
 * Faults: no-driver, no-counter, no-power, no-limit, lost (from the beginning), vanish, error, hang, counter-reset;
 * set-fails, no-application-clocks; older-driver (lists processes by the second version of the function), oldest-driver
 * (by none)
 */
#include <stdio.h>

#include "shapes.h"

enum { INSTANCES = 1000 }; /* handles of a GPU's instances begin at so many times its own */
enum { SUCCESS = 0, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, FUNCTION_NOT_FOUND = 13, GPU_IS_LOST = 15, UNKNOWN = 999 };
enum { POWER_INSTANT = 186 };

typedef struct {
    unsigned field, scope;
    long long timestamp, latency_us;
    int value_type, result;
    union { double as_double; unsigned as_unsigned; } value;
} field_value;

/* A handle is the device's number plus one: null is none. */
static unsigned device(void *handle) { return (unsigned)(size_t)handle - 1; }

static double cpu_s(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return used.tv_sec + 1e-9 * used.tv_nsec;
}

static int trouble(void *handle) {
    while (fault("hang", device(handle))) usleep(100000);
    if (fault("vanish", device(handle))) return GPU_IS_LOST;
    return fault("error", device(handle)) ? UNKNOWN : SUCCESS;
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    start_s = now_s();
    return is("STAND_IN_FAULT", "no-driver") ? DRIVER_NOT_LOADED : SUCCESS;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) {
    if (getenv("STAND_IN_TELL_SHUTDOWN")) fprintf(stderr, "stand-in: shut down\n");
    return SUCCESS;
}
const char *nvmlErrorString(int code) {
    if (code == NOT_SUPPORTED) return "Not Supported";
    if (code == NO_PERMISSION) return "Insufficient Permissions";
    return code == DRIVER_NOT_LOADED ? "Driver Not Loaded" : code == GPU_IS_LOST ? "GPU is lost" : "Unknown Error";
}
int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = (unsigned)number("STAND_IN_DEVICES", 2);
    return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    *handle = (void *)(size_t)(index + 1);
    return fault("lost", index) ? GPU_IS_LOST : SUCCESS;
}
int nvmlDeviceGetName(void *handle, char *name, unsigned size) {
    (void)handle;
    snprintf(name, size, "Stand-in GPU");
    return SUCCESS;
}
int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned size) {
    if (device(handle) < INSTANCES) snprintf(uuid, size, "GPU-%u", device(handle));
    else snprintf(uuid, size, "MIG-%u-%u", device(handle) / INSTANCES - 1, device(handle) % INSTANCES);
    return SUCCESS;
}
int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
    const char *told = getenv("STAND_IN_CAPABILITY");
    (void)handle;
    return told && sscanf(told, "%d.%d", major, minor) == 2 ? SUCCESS : NOT_SUPPORTED;
}
int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    (void)handle;
    *current = *pending = is("STAND_IN_MIG", "1");
    return SUCCESS;
}
int nvmlDeviceGetVirtualizationMode(void *handle, int *mode) {
    (void)handle;
    *mode = (int)number("STAND_IN_VIRTUAL", 0);
    return SUCCESS;
}
int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) {
    (void)handle;
    *count = 7;
    return SUCCESS;
}
/* Of a GPU's seven possible instances two are there. */
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **instance) {
    *instance = (void *)(size_t)(INSTANCES * (device(handle) + 1) + index + 1);
    return index < 2 ? SUCCESS : NOT_FOUND;
}
/* The model of limits: at a share x of the highest clock a device draws 60 + 340 x^3 W, and works x times as fast. A power
 * limit lowers the clock until that is met; what a device draws at its default limit just meets it. */
enum { HIGHEST_MHZ = 1410, LOWEST_MHZ = 210, STEP_MHZ = 15 };
static const double standing_w = 60, moving_w = 340, least_limit_w = 100;
typedef struct { double limit_w, before_w, locked_mhz, application_mhz, since_s, until_then_j, least_mhz; } limits;

static const char *limits_path(void *handle, const char *suffix) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/gpu-%u%s", getenv("STAND_IN_STATE"), device(handle), suffix);
    return path;
}
static limits limits_of(void *handle) {
    double default_w = number("STAND_IN_LIMIT_W", 400);
    limits now = {default_w, default_w, HIGHEST_MHZ, HIGHEST_MHZ, 0, 0, 0};
    FILE *file = getenv("STAND_IN_STATE") ? fopen(limits_path(handle, ""), "r") : NULL;
    if (!file) return now;
    if (fscanf(file, "%lf %lf %lf %lf %lf %lf %lf", &now.limit_w, &now.before_w, &now.locked_mhz, &now.application_mhz,
               &now.since_s, &now.until_then_j, &now.least_mhz) < 6) abort();
    fclose(file);
    return now;
}
static double in_force_w(limits now) {
    return now_s() - now.since_s < number("STAND_IN_TAKES_S", 0) ? now.before_w : now.limit_w;
}
static double asked_mhz(limits now) { return fmin(now.locked_mhz, now.application_mhz); }
static double model_mhz(limits now) {
    return fmin(asked_mhz(now), HIGHEST_MHZ * cbrt((now.limit_w - standing_w) / moving_w));
}
static double model_w(limits now) { return standing_w + moving_w * pow(model_mhz(now) / HIGHEST_MHZ, 3); }
static double model_j(limits now, double t) { return now.until_then_j + model_w(now) * (t - now.since_s); }
static int set_limits(void *handle, limits new, int is_application_clock) {
    if (is("STAND_IN_RIGHTS", "none") || (is("STAND_IN_RIGHTS", "application-clocks") && !is_application_clock))
        return NO_PERMISSION;
    if (fault("set-fails", device(handle))) return UNKNOWN;
    limits old = limits_of(handle);
    new.before_w = old.limit_w, new.until_then_j = model_j(old, now_s()), new.since_s = now_s();
    FILE *file = fopen(limits_path(handle, ".part"), "w");
    if (!file) return UNKNOWN;
    fprintf(file, "%.17g %.17g %.17g %.17g %.17g %.17g %.17g\n", new.limit_w, new.before_w, new.locked_mhz, new.application_mhz,
            new.since_s, new.until_then_j, new.least_mhz);
    fclose(file);
    char part[4096];
    strcpy(part, limits_path(handle, ".part"));
    return rename(part, limits_path(handle, "")) ? UNKNOWN : SUCCESS;
}
int nvmlDeviceSetPowerManagementLimit(void *handle, unsigned milliwatts) {
    limits new = limits_of(handle);
    new.limit_w = milliwatts / 1000.0;
    return set_limits(handle, new, 0);
}
int nvmlDeviceGetPowerManagementLimit(void *handle, unsigned *milliwatts) {
    *milliwatts = (unsigned)(1000 * limits_of(handle).limit_w);
    return fault("no-limit", device(handle)) ? NOT_SUPPORTED : SUCCESS;
}
int nvmlDeviceGetPowerManagementDefaultLimit(void *handle, unsigned *milliwatts) {
    (void)handle;
    *milliwatts = (unsigned)(1000 * number("STAND_IN_LIMIT_W", 400));
    return SUCCESS;
}
int nvmlDeviceGetPowerManagementLimitConstraints(void *handle, unsigned *least, unsigned *most) {
    *least = (unsigned)(1000 * least_limit_w), *most = (unsigned)(1000 * number("STAND_IN_LIMIT_W", 400));
    return fault("no-limit", device(handle)) ? NOT_SUPPORTED : SUCCESS;
}
int nvmlDeviceSetGpuLockedClocks(void *handle, unsigned least, unsigned most) {
    limits new = limits_of(handle);
    new.least_mhz = least, new.locked_mhz = most;
    return set_limits(handle, new, 0);
}
int nvmlDeviceResetGpuLockedClocks(void *handle) { return nvmlDeviceSetGpuLockedClocks(handle, 0, HIGHEST_MHZ); }
int nvmlDeviceSetApplicationsClocks(void *handle, unsigned memory, unsigned most) {
    limits new = limits_of(handle);
    (void)memory;
    new.application_mhz = most;
    return set_limits(handle, new, 1);
}
int nvmlDeviceGetApplicationsClock(void *handle, int kind, unsigned *mhz) {
    *mhz = kind == 2 ? 1593 : (unsigned)limits_of(handle).application_mhz;
    return fault("no-application-clocks", device(handle)) ? NOT_SUPPORTED : SUCCESS;
}
int nvmlDeviceGetMaxClockInfo(void *handle, int kind, unsigned *mhz) {
    (void)handle;
    *mhz = kind == 2 ? 1593 : HIGHEST_MHZ;
    return SUCCESS;
}
int nvmlDeviceGetSupportedGraphicsClocks(void *handle, unsigned memory, unsigned *count, unsigned *clocks) {
    unsigned there = (HIGHEST_MHZ - LOWEST_MHZ) / STEP_MHZ + 1, room = *count;
    (void)handle, (void)memory;
    *count = there;
    if (!clocks || room < there) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < there; i++) clocks[i] = HIGHEST_MHZ - i * STEP_MHZ;
    return SUCCESS;
}
int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) {
    if (fault("no-power", device(handle))) return NOT_SUPPORTED;
    int code = trouble(handle);
    *milliwatts = (unsigned)(1000 * (device(handle) + 1) * power_w(now_s()));
    if (getenv("STAND_IN_STATE")) *milliwatts = (unsigned)(1000 * model_w(limits_of(handle)));
    return code;
}
int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *millijoules) {
    if (fault("no-counter", device(handle))) return NOT_SUPPORTED;
    int code = trouble(handle);
    double takes_s = number("STAND_IN_COUNTER_TAKES_S", 0); /* to look at that clock takes longer than all else here */
    if (takes_s) for (double end_s = cpu_s() + takes_s; cpu_s() < end_s;) {}
    double counted_j = (device(handle) + 1) * energy_j(now_s());
    if (fault("counter-reset", device(handle))) counted_j -= energy_j(start_s);
    if (getenv("STAND_IN_STATE")) counted_j = model_j(limits_of(handle), now_s());
    *millijoules = (unsigned long long)(1000 * counted_j);
    return code;
}
int nvmlDeviceGetFieldValues(void *handle, int count, field_value *values) {
    int newer = is("STAND_IN_INSTANT", "1");
    for (int i = 0; i < count; i++) {
        unsigned milliwatts = 0;
        values[i].result = NOT_SUPPORTED;
        if (newer && values[i].field == POWER_INSTANT && (!values[i].scope || getenv("STAND_IN_MODULE_W"))) {
            values[i].result = nvmlDeviceGetPowerUsage(handle, &milliwatts);
            if (values[i].scope) milliwatts += (unsigned)(1000 * number("STAND_IN_MODULE_W", 0));
            values[i].value.as_unsigned = milliwatts;
        }
    }
    return SUCCESS;
}
int nvmlDeviceGetClockInfo(void *handle, int kind, unsigned *mhz) {
    *mhz = kind == 1 ? (unsigned)model_mhz(limits_of(handle)) : 1593;
    return SUCCESS;
}
int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *celsius) {
    (void)handle, (void)sensor;
    *celsius = 45;
    return SUCCESS;
}
int nvmlDeviceGetEnforcedPowerLimit(void *handle, unsigned *milliwatts) {
    if (fault("no-limit", device(handle))) return NOT_SUPPORTED;
    *milliwatts = (unsigned)(1000 * in_force_w(limits_of(handle)));
    return SUCCESS;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *reasons) {
    limits now = limits_of(handle);
    *reasons = 4; /* the power limit; 2: clocks that a user has set */
    if (getenv("STAND_IN_STATE"))
        *reasons = model_mhz(now) < asked_mhz(now) ? 4 : asked_mhz(now) < HIGHEST_MHZ ? 2 : 0;
    return SUCCESS;
}
int nvmlDeviceGetArchitecture(void *handle, unsigned *architecture) {
    (void)handle;
    *architecture = 9; /* Hopper */
    return SUCCESS;
}
/* What other samplers ask for beside power, when they are measured for comparison. */
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long total_free_used[3]) {
    (void)handle;
    total_free_used[0] = total_free_used[1] = 1ULL << 36;
    total_free_used[2] = 0;
    return SUCCESS;
}
int nvmlDeviceGetUtilizationRates(void *handle, unsigned gpu_memory[2]) {
    (void)handle;
    gpu_memory[0] = gpu_memory[1] = 50;
    return SUCCESS;
}
int nvmlDeviceGetComputeMode(void *handle, int *mode) {
    (void)handle;
    *mode = 0;
    return SUCCESS;
}
typedef struct { unsigned pid; unsigned long long used_bytes; unsigned gpu_instance, compute_instance; } process;

int nvmlDeviceGetComputeRunningProcesses_v2(void *handle, unsigned *count, process *processes) {
    const char *text = getenv("STAND_IN_PROCESSES");
    unsigned found = 0, room = *count, gpu, pid;
    if (is("STAND_IN_FAULT", "oldest-driver")) return FUNCTION_NOT_FOUND;
    int length;
    for (; text && sscanf(text, " %u:%u%n", &gpu, &pid, &length) == 2; text += length) {
        if (gpu != device(handle)) continue;
        if (found < room && processes) processes[found] = (process){pid, 1 << 30, ~0u, ~0u};
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, process *processes) {
    if (is("STAND_IN_FAULT", "older-driver")) return FUNCTION_NOT_FOUND;
    return nvmlDeviceGetComputeRunningProcesses_v2(handle, count, processes);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned *count, process *processes) {
    (void)handle, (void)processes;
    *count = 0;
    return SUCCESS;
}
