import { execFile } from 'node:child_process';
import type { Check } from './check';

const QUERY = ['--query-gpu=name,memory.total,driver_version', '--format=csv,noheader'];

/** NVIDIA GPUs as nvidia-smi lists them. */
export function checkGpu(env: NodeJS.ProcessEnv): Promise<Check> {
  return new Promise((resolve) => {
    execFile('nvidia-smi', QUERY, { env, timeout: 20_000 }, (error, stdout) => {
      const gpus = error === null ? stdout.trim().split('\n') : [];
      if (gpus.length > 0) resolve({ name: 'GPU', status: 'good', found: gpus.join('; '), facts: { gpus } });
      else
        resolve({
          name: 'GPU',
          status: 'note',
          found: 'no NVIDIA GPU (nvidia-smi); ranks compute on the CPU',
        });
    });
  });
}
