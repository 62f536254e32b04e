import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { shortened } from '../../core';

/** The module koffi, which calls functions of native libraries. */
export type Koffi = typeof import('koffi');

/** Loads koffi, or returns the reason why it does not load. */
export function loadKoffi(): { readonly koffi: Koffi } | { readonly koffi: null; readonly reason: string } {
  try {
    // A module that is loaded at run time has no type of its own.
    return { koffi: createRequire(__filename)('koffi') as Koffi };
  } catch (error) {
    const message = error instanceof Error ? error.message.split('\n')[0] : String(error);
    return { koffi: null, reason: `koffi does not load (${message})` };
  }
}

/** The library that computes the engine's matmuls. */
export interface BlasInfo {
  readonly library: string;
  readonly path: string;
  readonly threads: number;
}

/** Says that there is no BLAS; `reason` says why, and what to do. */
export interface BlasAbsent {
  readonly library: null;
  readonly reason: string;
}

/** Which BLAS is used: 'auto' searches for one, 'none' uses none, `path` names a library. */
export type BlasChoice = 'auto' | 'none' | { readonly path: string };

/**
 * C = op(A) op(B) + beta C for row-major float32 matrices; op(A) is [m, k], op(B) is [k, n].
 * a, b, c are addresses; lda, ldb, ldc are the lengths of the stored rows, in elements.
 */
export type Sgemm = (
  transposeA: boolean,
  transposeB: boolean,
  m: number,
  n: number,
  k: number,
  a: number,
  lda: number,
  b: number,
  ldb: number,
  beta: number,
  c: number,
  ldc: number,
) => void;

export interface BlasFound extends BlasInfo {
  readonly sgemm: Sgemm;
}

export interface BlasOptions {
  readonly blas?: BlasChoice;
  /** Threads per matmul. Default 1. */
  readonly threads?: number;
  /** Python's site-packages folders that are searched for numpy, which contains OpenBLAS. */
  readonly searchPaths?: readonly string[];
}

/** Names of a BLAS's functions, and the type of their integer arguments: 64 bits if the name of sgemm contains 64. */
interface Flavour {
  readonly sgemm: string;
  readonly setThreads: readonly string[];
  readonly integer: 'int' | 'int64_t';
}

const FLAVOURS: readonly Flavour[] = [
  { sgemm: 'scipy_cblas_sgemm64_', setThreads: ['scipy_openblas_set_num_threads64_'], integer: 'int64_t' },
  { sgemm: 'cblas_sgemm64_', setThreads: ['openblas_set_num_threads64_'], integer: 'int64_t' },
  { sgemm: 'cblas_sgemm_64', setThreads: ['MKL_Set_Num_Threads'], integer: 'int64_t' },
  { sgemm: 'scipy_cblas_sgemm', setThreads: ['scipy_openblas_set_num_threads'], integer: 'int' },
  { sgemm: 'cblas_sgemm', setThreads: ['openblas_set_num_threads', 'MKL_Set_Num_Threads'], integer: 'int' },
];

const SYSTEM_LIBRARIES: Partial<Record<NodeJS.Platform, readonly string[]>> = {
  linux: ['libopenblas.so.0', 'libopenblas.so', 'libopenblas64_.so.0', 'libmkl_rt.so.2', 'libmkl_rt.so'],
  darwin: [
    '/opt/homebrew/opt/openblas/lib/libopenblas.dylib',
    '/usr/local/opt/openblas/lib/libopenblas.dylib',
    '/System/Library/Frameworks/Accelerate.framework/Accelerate',
  ],
  win32: ['libopenblas.dll', 'mkl_rt.2.dll'],
};

/** The longest reason why a file is not a BLAS. */
const MOST_REASON = 300;

/** The words with which Linux and macOS say that a library's file does not exist. */
const ABSENT = /no such file/i;

/** Searches for a BLAS: first the user's path, then numpy's OpenBLAS, then the system's libraries. Never throws. */
export function findBlas(options: BlasOptions = {}): BlasFound | BlasAbsent {
  const { blas = 'auto', threads = 1, searchPaths = [] } = options;
  if (blas === 'none') return { library: null, reason: "it was switched off (blas: 'none')" };
  const native = loadKoffi();
  if (native.koffi === null) return { library: null, reason: native.reason };
  const tried: string[] = [];
  for (const path of candidates(blas, searchPaths)) {
    const libraryOrReason = open(native.koffi, path, threads);
    if (typeof libraryOrReason !== 'string') return libraryOrReason;
    tried.push(shortened(ABSENT.test(libraryOrReason) ? path : `${path}: ${libraryOrReason}`, MOST_REASON));
  }
  return {
    library: null,
    reason: `no library was found (${tried.length === 0 ? 'shardlab knows no place to search on this platform' : `tried ${tried.join(', ')}`}); install numpy in the Jupyter environment, or OpenBLAS in the system, or give the library's path (blas: { path })`,
  };
}

function candidates(blas: 'auto' | { readonly path: string }, searchPaths: readonly string[]): string[] {
  if (blas !== 'auto') return [blas.path];
  return [...searchPaths.flatMap(numpyLibraries), ...(SYSTEM_LIBRARIES[process.platform] ?? [])];
}

/** Returns the OpenBLAS files of numpy's wheels: next to the package (Linux, Windows) or in the package (macOS). */
function numpyLibraries(sitePackages: string): string[] {
  return [join(sitePackages, 'numpy.libs'), join(sitePackages, 'numpy', '.dylibs')]
    .filter((folder) => existsSync(folder))
    .flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)))
    .filter((path) => /openblas/.test(path));
}

/** Opens and tests the library at `path`; returns the reason if it cannot be used. */
function open(koffi: Koffi, path: string, threads: number): BlasFound | string {
  try {
    const library = koffi.load(path);
    const has = (name: string): boolean => canFind(() => library.func(`void ${name}(int)`));
    const flavour = FLAVOURS.find(({ sgemm }) => has(sgemm));
    if (flavour === undefined) return 'it has no cblas_sgemm';
    const setThreads = flavour.setThreads.find(has);
    if (setThreads !== undefined) library.func(`void ${setThreads}(int)`)(threads);
    const sgemm = bind(library, flavour);
    if (!multipliesRight(koffi, sgemm)) return `its ${flavour.sgemm} computes wrong matmuls`;
    return { library: nameOf(path), path, threads: setThreads === undefined ? 1 : threads, sgemm };
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function canFind(lookUp: () => unknown): boolean {
  try {
    lookUp();
    return true;
  } catch {
    return false;
  }
}

const ROW_MAJOR = 101;
const PLAIN = 111;
const TRANSPOSED = 112;

function bind(library: ReturnType<Koffi['load']>, flavour: Flavour): Sgemm {
  const i = flavour.integer;
  const call = library.func(
    `void ${flavour.sgemm}(int, int, int, ${i}, ${i}, ${i}, float, uint64_t, ${i}, uint64_t, ${i}, float, uint64_t, ${i})`,
  );
  return (transposeA, transposeB, m, n, k, a, lda, b, ldb, beta, c, ldc) => {
    const ta = transposeA ? TRANSPOSED : PLAIN;
    const tb = transposeB ? TRANSPOSED : PLAIN;
    call(ROW_MAJOR, ta, tb, m, n, k, 1, a, lda, b, ldb, beta, c, ldc);
  };
}

/**
 * Tests a small matmul with a transpose and beta 1: the result is wrong if the size of integers or the order of arguments
 * differs.
 */
function multipliesRight(koffi: Koffi, sgemm: Sgemm): boolean {
  const a = Float32Array.of(1, 4, 2, 5, 3, 6);
  const b = Float32Array.of(1, 2, 3, 4, 5, 6);
  const c = Float32Array.of(1, 1, 1, 1);
  const address = (array: Float32Array): number => Number(koffi.address(array));
  sgemm(true, false, 2, 2, 3, address(a), 2, address(b), 2, 1, address(c), 2);
  return c.join() === '23,29,50,65';
}

function nameOf(path: string): string {
  if (/scipy_openblas/.test(path)) return 'OpenBLAS (numpy)';
  if (/openblas/i.test(path)) return 'OpenBLAS';
  if (/mkl/.test(path)) return 'MKL';
  return /Accelerate/.test(path) ? 'Accelerate' : path;
}
