/* Holds a program to AVX2: cc -O2 -shared -fPIC -o hold.so hold_to_avx2.c; LD_PRELOAD=./hold.so program
 *
 * Linux on x86-64 with CPUID faulting: every CPUID instruction of the program traps, and its answer comes back without
 * AVX-512, AMX and the VEX-coded VNNI. A fair comparison of AVX2 code on a machine that has more. */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARCH_CPUID_SET 0x1012

static void answer(int signal_number, siginfo_t *info, void *context) {
    (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *code = (const unsigned char *)registers[REG_RIP];
    if (code[0] != 0x0f || code[1] != 0xa2) {
        /* Some other fault: let it end the program. */
        signal(signal_number, SIG_DFL);
        return;
    }
    unsigned leaf = registers[REG_RAX], subleaf = registers[REG_RCX], a, b, c, d;
    syscall(SYS_arch_prctl, ARCH_CPUID_SET, 1);
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "0"(leaf), "2"(subleaf));
    syscall(SYS_arch_prctl, ARCH_CPUID_SET, 0);
    if (leaf == 7 && subleaf == 0) {
        /* EBX: AVX-512 F DQ IFMA PF ER CD BW VL; ECX: VBMI VBMI2 VNNI BITALG VPOPCNTDQ; EDX: 4VNNIW 4FMAPS VP2INTERSECT
         * AMX-BF16 AVX512-FP16 AMX-TILE AMX-INT8. */
        b &= ~(1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31);
        c &= ~(1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14);
        d &= ~(1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25);
    } else if (leaf == 7) {
        /* EAX of subleaf 1: AVX-VNNI, AVX512-BF16, AMX-FP16, AVX-IFMA; EDX: AVX-VNNI-INT8, AVX-NE-CONVERT. */
        a &= ~(1u << 4 | 1u << 5 | 1u << 21 | 1u << 23);
        d &= ~(1u << 4 | 1u << 5 | 1u << 8);
    }
    registers[REG_RAX] = a, registers[REG_RBX] = b, registers[REG_RCX] = c, registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void hold(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = answer;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, 0);
    if (syscall(SYS_arch_prctl, ARCH_CPUID_SET, 0) != 0) {
        static const char text[] = "hold_to_avx2: this machine cannot trap CPUID\n";
        (void)!write(2, text, sizeof text - 1);
        _exit(2);
    }
}
