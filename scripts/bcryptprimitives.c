// Random bytes for Rust's standard library under Debian 12's wine (8.0), which has no bcryptprimitives.dll.
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
    return RtlGenRandom(data, (ULONG)size);
}
