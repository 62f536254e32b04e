import { type Bytes, ConfigError, formatBytes } from '../../core';

/** The sizes of a CUDA build of torch on PyPI, in bytes. */
interface CudaBuild {
  readonly torchBytes: Bytes;
  /** Bytes of the CUDA libraries and Triton, which the build needs. */
  readonly libraryBytes: Bytes;
}

/** The index with PyTorch's builds for CPUs. */
const CPU_INDEX = 'https://download.pytorch.org/whl/cpu';

/**
 * The build of torch that PyPI has, by platform; for a platform that is not listed, the build is unknown. Source: the
 * files of torch 2.13.0 and of its requirements on PyPI.
 */
const BUILDS: Readonly<Record<string, CudaBuild | 'no CUDA' | undefined>> = {
  'linux-x64': { torchBytes: 527e6, libraryBytes: 2.2e9 },
  'darwin-arm64': 'no CUDA',
};

/** Bytes of smaller packages and of requirements that torch does not need. Source: the files on PyPI for Linux x64. */
const SMALL_PACKAGES: Readonly<Record<string, Bytes>> = { accelerate: 7e6, deepspeed: 6e6 };

/**
 * Returns what the user must know before the packages of requirement files (`lines`) are downloaded. Throws: CONFIG if the
 * user wants CUDA and PyPI has no build with CUDA for the platform.
 */
export function downloadNotices(
  lines: readonly string[],
  platform: string,
  wantsCuda: boolean,
): readonly string[] {
  const names = lines.map((line) => line.replace(/==.*/, ''));
  const small = names.filter((name) => name in SMALL_PACKAGES);
  const bytes = small.reduce((sum, name) => sum + (SMALL_PACKAGES[name] ?? 0), 0);
  const notice = torchNotice(platform, wantsCuda);
  return [
    ...(names.includes('torch') && notice !== '' ? [notice] : []),
    ...(small.length > 0 ? [`${small.join(' and ')}, with requirements: about ${formatBytes(bytes)}`] : []),
  ];
}

function torchNotice(platform: string, wantsCuda: boolean): string {
  const build = BUILDS[platform];
  if (build === 'no CUDA' && wantsCuda) {
    throw new ConfigError(`PyPI has no torch with CUDA for ${platform}; leave --cuda out`);
  }
  if (build === undefined || build === 'no CUDA') return '';
  const size = `${formatBytes(build.torchBytes)} of torch and about ${formatBytes(build.libraryBytes)} of CUDA libraries`;
  if (wantsCuda) return `pip downloads ${size}, unless these files are in its cache`;
  return (
    `PyPI has only the CUDA build of torch for ${platform}, which also runs on CPUs: pip downloads ${size}, ` +
    `unless these files are in its cache, or pip uses another index; for the smaller CPU build, set PIP_EXTRA_INDEX_URL=${CPU_INDEX}`
  );
}
