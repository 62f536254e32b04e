import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { cpus, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { formatBytes, installAdvice } from '../../core';
import { createWasmEngine, findBlas } from '../../engine';
import { probeSharedMemory, SEGMENT_BYTES } from '../../wire';

/**
 * 'good': the item is present. 'note': it is absent, but everything else works. 'bad': something does not work until it is fixed.
 */
export type CheckStatus = 'good' | 'note' | 'bad';

/** The result of one check. */
export interface Check {
  readonly name: string;
  readonly status: CheckStatus;
  readonly found: string;
  /** What the user should do; undefined: nothing. */
  readonly advice?: string;
  /** What `found` says, as values for programs; the answer of --json has them. */
  readonly facts?: Readonly<Record<string, unknown>>;
}

const MARKS = { good: '✓', note: '·', bad: '✗' } as const;

/** Returns the text of a check. */
export function asLine({ name, status, found, advice }: Check): string {
  const line = `${MARKS[status]} ${name.padEnd(18)} ${found}`;
  return advice === undefined ? line : `${line}\n  ${' '.repeat(18)} → ${advice}`;
}

const LEAST_NODE = [20, 19] as const;

/** When a version of Node has got its last security update, by its first number. Source: nodejs/Release, schedule.json. */
const NODE_ENDED: Readonly<Record<number, string>> = { 20: '2026-04-30' };

/** Compares Node's version with the version that package.json requires, and says when a version gets no more updates. */
export function checkNode(version: string = process.versions.node): Check {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [leastMajor, leastMinor] = LEAST_NODE;
  const isNew = major > leastMajor || (major === leastMajor && minor >= leastMinor);
  const finding = `${version} (${process.platform} ${process.arch})`;
  const ended = NODE_ENDED[major];
  if (isNew) {
    const check: Check = { name: 'Node', status: 'good', found: finding, facts: { version } };
    if (ended === undefined) return check;
    const advice = `Node ${major} works here, but it ended on ${ended} and gets no security updates; Node 22, 24 and 26 are tested too`;
    return { ...check, advice };
  }
  return {
    name: 'Node',
    status: 'bad',
    found: finding,
    advice: `install Node ${LEAST_NODE.join('.')} or newer`,
  };
}

/** Reports this machine's processor and memory. */
export function checkHost(): Check {
  const processors = cpus();
  const model = processorName();
  const finding = `${processors.length} × ${model}, ${formatBytes(totalmem())} of memory`;
  return {
    name: 'host',
    status: 'good',
    found: finding,
    facts: { processor: model, cores: processors.length, memoryBytes: totalmem() },
  };
}

/** Returns the processor's name from the operating system. */
export function processorName(): string {
  return cpus()[0]?.model.trim() ?? 'unknown processor';
}

const resolveFrom = createRequire(__filename);
const QUERY = ['--query-gpu=name,memory.total,driver_version', '--format=csv,noheader'];

/** Checks whether the wasm engine starts, and which BLAS computes its matmuls. */
export async function checkWasm(searchPaths: readonly string[]): Promise<readonly Check[]> {
  try {
    await createWasmEngine({ searchPaths });
  } catch (error) {
    const finding = `does not start: ${error instanceof Error ? error.message : String(error)}`;
    return [{ name: 'engine wasm', status: 'bad', found: finding, advice: installAdvice().again }];
  }
  return [{ name: 'engine wasm', status: 'good', found: 'starts' }, checkBlas(searchPaths)];
}

function checkBlas(searchPaths: readonly string[]): Check {
  const blas = findBlas({ searchPaths });
  if (blas.library === null) {
    const advice = `matmuls run in WebAssembly, several times slower; numpy contains OpenBLAS: ${installAdvice().pythonPackages('numpy')}`;
    return { name: 'BLAS', status: 'note', found: `none: ${blas.reason}`, advice };
  }
  const { library, path } = blas;
  return { name: 'BLAS', status: 'good', found: `${library}, ${path}`, facts: { library, path } };
}

/** Checks whether an optional TensorFlow package is installed with its native binding. */
export function checkTensorflow(): Check {
  const name = 'engine tensorflow';
  for (const pkg of ['@tensorflow/tfjs-node-gpu', '@tensorflow/tfjs-node']) {
    const folder = packageFolder(pkg);
    if (folder === undefined) continue;
    if (hasBinding(join(folder, 'lib'))) return { name, status: 'good', found: `${pkg} with its binding` };
    const advice = `ranks use wasm; to download the binding: npm rebuild ${pkg} --ignore-scripts=false`;
    return { name, status: 'note', found: `${pkg} is installed without its native binding`, advice };
  }
  const advice = tensorflowAdvice();
  return { name, status: 'note', found: 'not installed (optional)', advice };
}

/** Says how to install the package. Ranks look for it beside shardlab, and in a wheel nothing can be installed there. */
export function tensorflowAdvice(advice = installAdvice()): string {
  const pkg = '@tensorflow/tfjs-node-gpu@4.22.0';
  return advice.by === 'pip'
    ? `ranks use wasm; this engine needs an installation by npm: npm install shardlab ${pkg}`
    : `ranks use wasm; to install the package: ${advice.npmPackage(pkg)}`;
}

/** Checks whether ranks can exchange tensors through shared memory, or which plane they use instead. */
export function checkSharedMemory(): Check {
  const name = 'shared memory';
  const probe = probeSharedMemory(SEGMENT_BYTES);
  if (probe.ok) {
    return { name, status: 'good', found: 'koffi loads and memfd works', facts: { plane: 'shared-memory' } };
  }
  const advice = 'ranks exchange tensors over zeromq instead, which is slower; you need not do anything';
  return { name, status: 'note', found: probe.reason, advice, facts: { plane: 'zeromq' } };
}

/** Lists NVIDIA GPUs, from nvidia-smi. */
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

function packageFolder(name: string): string | undefined {
  try {
    return dirname(resolveFrom.resolve(`${name}/package.json`));
  } catch {
    return undefined;
  }
}

function hasBinding(lib: string): boolean {
  if (!existsSync(lib)) return false;
  return readdirSync(lib).some((folder) => existsSync(join(lib, folder, 'tfjs_binding.node')));
}
