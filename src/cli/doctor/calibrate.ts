import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { ConfigError, ShardlabError } from '../../core';
import { type FittedHardware, fitHardware, GPUS, parseMeasured } from '../../planner';
import { runPython } from '../bench/python-peer';
import { jupyterPython } from '../install/python';
import { type Io, type Output, orFail } from '../io';

export interface CalibrateOptions {
  readonly python?: string | undefined;
  readonly device: 'cuda' | 'cpu';
  /** The file for the calibration; with --json, stdout has the calibration too. */
  readonly out?: string | undefined;
}

/**
 * Measures this machine's GPUs with a short PyTorch program, and fits the planner's hardware figures to the measurements.
 * Throws: ENGINE if torch or CUDA is missing.
 */
export async function calibrate(options: CalibrateOptions, io: Io, output: Output): Promise<void> {
  const python = options.python ?? jupyterPython(io.env);
  output.note(`measuring with ${python} (matmuls, memory, launches, all-reduce); this takes about a minute`);
  const args = [join(__dirname, 'calibrate.py'), '--device', options.device];
  const printed = await runPython(python, args, io, () => false, '--python');
  const fitted = fitHardware(parseMeasured(present(documentOf(printed), python)));
  if (options.out !== undefined) {
    const path = resolve(io.cwd, options.out);
    orFail(
      () => writeFileSync(path, `${JSON.stringify(fitted, null, 2)}\n`),
      (reason) => new ConfigError(`--out ${path} cannot be written (${reason})`),
    );
  }
  output.answer(fitted, () => asText(fitted, options.out));
}

/** Returns the measurements. Throws: ENGINE if torch or CUDA is missing. */
function present(answer: unknown, python: string): unknown {
  const missing =
    typeof answer === 'object' && answer !== null && 'missing' in answer ? answer.missing : undefined;
  if (missing === undefined) return answer;
  throw new ShardlabError(
    'ENGINE',
    missing === 'torch'
      ? `${python} has no torch; name a Python that has torch with --python PATH`
      : `${python}'s torch finds no CUDA GPU; run this on the machine with the GPUs (or try it on the CPU: --device cpu)`,
  );
}

/** Parses the program's last line; libraries may print before it. */
function documentOf(printed: string): unknown {
  const line = printed.trim().split('\n').at(-1) ?? '';
  try {
    return JSON.parse(line);
  } catch {
    throw new ShardlabError(
      'ENGINE',
      `the measurement ended with '${line.slice(0, 200)}' instead of its result`,
    );
  }
}

function asText(fitted: FittedHardware, out: string | undefined): string {
  const { measured, like, notes } = fitted;
  const published = Object.entries(GPUS).find(([name]) => name === like)?.[1];
  const figures = (['gemmTflops', 'hbmTBps', 'linkGBps', 'memoryGB'] as const).flatMap((key) => {
    const value = fitted[key];
    if (value === undefined) return [];
    return [`${key.padEnd(11)} ${value.toPrecision(4).padStart(8)}   published ${published?.[key]}`];
  });
  return [
    `${measured.name} (${measured.gpus} x, torch ${measured.torch}), as ${like}`,
    ...figures,
    `launch      ${measured.launch_us.toFixed(1)} µs per operation`,
    ...notes.map((note) => `note: ${note}`),
    out === undefined
      ? 'not stored: give --out FILE'
      : `stored in ${out}; shardlab plan --calibration ${out} reads it`,
  ].join('\n');
}
