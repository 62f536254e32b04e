import { ConfigError } from '../../core/errors';
import { type Bytes, formatBytes } from '../../core/units';

/** Bytes of a CUDA build of torch on PyPI. */
interface CudaBuild {
  readonly torchBytes: Bytes;
  /** Bytes of the CUDA libraries and Triton, which it needs. */
  readonly libraryBytes: Bytes;
}

/** The index with PyTorch's builds for CPUs. */
const CPU_INDEX = 'https://download.pytorch.org/whl/cpu';

/** What PyPI has for a platform. Source: the files of torch 2.13.0 on PyPI and of the packages that it requires. Others: unknown. */
const BUILDS: Readonly<Record<string, CudaBuild | 'no CUDA' | undefined>> = {
  'linux-x64': { torchBytes: 527e6, libraryBytes: 2.2e9 },
  'darwin-arm64': 'no CUDA',
};

/**
 * Returns what the user must know before the download; '' if there is nothing. Throws: CONFIG if CUDA is asked for where no build has
 * it.
 */
export function downloadNotice(platform: string, wantsCuda: boolean): string {
  const build = BUILDS[platform];
  if (build === 'no CUDA' && wantsCuda) {
    throw new ConfigError(`PyPI has no torch with CUDA for ${platform}; leave --cuda out`);
  }
  if (build === undefined || build === 'no CUDA') return '';
  const size = `${formatBytes(build.torchBytes)} of torch and about ${formatBytes(build.libraryBytes)} of CUDA libraries`;
  if (wantsCuda) return `downloads ${size}, unless pip has them already`;
  return (
    `PyPI has only the CUDA build of torch for ${platform}, which also runs on CPUs: ${size}, unless pip has them already ` +
    `or is configured with another index; for the smaller CPU build, set PIP_EXTRA_INDEX_URL=${CPU_INDEX}`
  );
}
