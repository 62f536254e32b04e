import { execFile } from 'node:child_process';
import { installAdvice } from '../../core';
import { readTorch, TESTED_TORCH, TORCH_PROBE, type TorchFound, torchPython } from '../../torch';
import type { Check } from './checks';

/** The longest time of a check. An import of torch takes seconds, or longer from a slow disk. */
const PATIENCE_MILLISECONDS = 60_000;

/** The facts that only an import of PyTorch shows. */
type Devices = Pick<TorchFound, 'gpus' | 'nccl'>;

const IMPORT = `
import torch
print(json.dumps({
  'nccl': '.'.join(map(str, torch.cuda.nccl.version())) if torch.distributed.is_nccl_available() else None,
  'gpus': [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]}))
`;

/** What a Python printed, and why it ended early; `failure` undefined: it ended normally. */
interface Looked {
  readonly stdout: string;
  readonly failure: string | undefined;
}

const name = 'engine torch';
const COMMAND = installAdvice().command('engine torch');

/** Checks the Python of engine 'torch' and its PyTorch. One import of torch also shows CUDA, NCCL and GPUs. */
export async function checkTorch(
  env: NodeJS.ProcessEnv,
  { withImport = true, patienceMilliseconds = PATIENCE_MILLISECONDS } = {},
): Promise<readonly [Check, ...Check[]]> {
  const own = torchPython(env);
  if (own.python === undefined) {
    const advice = `${COMMAND} makes a Python environment with PyTorch; or set SHARDLAB_TORCH_PYTHON`;
    return [{ name, status: 'note', found: `no Python with PyTorch: ${own.missing} (optional)`, advice }];
  }
  const { python, isNamed } = own;
  const looked = await look(
    python,
    withImport ? TORCH_PROBE + IMPORT : TORCH_PROBE,
    env,
    patienceMilliseconds,
  );
  const torchOrFailure = looked.stdout.includes('\n')
    ? readTorch(looked.stdout)
    : (looked.failure ?? 'it prints nothing');
  if (typeof torchOrFailure === 'string') {
    const advice = isNamed ? `correct SHARDLAB_TORCH_PYTHON, or unset it and run ${COMMAND}` : COMMAND;
    return [{ name, status: 'bad', found: `${python}: ${torchOrFailure}`, advice }];
  }
  const { torch } = torchOrFailure;
  const first: Check = {
    name,
    status: 'good',
    found: `torch ${torch}${torch.startsWith(`${TESTED_TORCH}.`) ? '' : ` (tested: ${TESTED_TORCH})`}, Python ${torchOrFailure.python} (${python})`,
    facts: { ...torchOrFailure, python, pythonVersion: torchOrFailure.python },
  };
  return withImport ? [first, checkDevices(looked, torchOrFailure.cuda)] : [first];
}

function checkDevices({ stdout, failure }: Looked, cuda: string | null): Check {
  const row = { name: "torch's GPUs" };
  if (failure !== undefined) {
    return { ...row, status: 'bad', found: `\`import torch\` fails: ${failure}`, advice: COMMAND };
  }
  // `IMPORT` prints the second line.
  const devices = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Devices;
  const facts = { cuda, ...devices };
  const software = [
    cuda === null ? 'built without CUDA' : `CUDA ${cuda}`,
    devices.nccl === null ? 'no NCCL' : `NCCL ${devices.nccl}`,
  ].join(', ');
  if (devices.gpus.length > 0) {
    return { ...row, status: 'good', found: `${devices.gpus.join(', ')} (${software})`, facts };
  }
  return { ...row, status: 'note', found: `none (${software}); ranks compute on the CPU`, facts };
}

function look(python: string, program: string, env: NodeJS.ProcessEnv, timeout: number): Promise<Looked> {
  return new Promise((resolve) => {
    execFile(python, ['-c', program], { env, timeout, killSignal: 'SIGKILL' }, (error, stdout, stderr) => {
      const last = stderr.trim().split('\n').at(-1) || error?.message;
      const failure = error?.killed === true ? `it takes longer than ${timeout / 1e3} s` : last;
      resolve({ stdout, failure: error === null ? undefined : failure });
    });
  });
}
