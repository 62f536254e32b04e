import type { Command } from 'commander';
import { nearest, WHOLE_SETTINGS } from '../../config';
import { ConfigError } from '../../core';
import { sitePackages } from '../../launch';
import { torchSupport } from '../../torch';
import { asLine, type Check, checkWasm } from '../doctor/checks';
import { checkTorch } from '../doctor/torch-checks';
import { INSTALLATION } from '../install/kernelspec-folder';
import type { Io, Output, Perform } from '../io';
import { ensureTorch, type TorchRequest } from './torch-environment';

const NAMES = ['wasm', 'torch'] as const;

interface EngineOptions extends TorchRequest {
  readonly settings?: boolean;
}

/** `shardlab engine`: lists engines, and makes the environment of engine 'torch'. */
export function declareEngine(command: Command, perform: Perform, io: Io): void {
  command
    .argument('[name]', `${NAMES.join(' or ')}; without a name, lists engines`)
    .option('--cuda', 'engine torch: fails if the installed torch has no CUDA')
    .option(
      '--deepspeed',
      "engine torch: also installs DeepSpeed, for job.train(config, { framework: 'deepspeed' })",
    )
    .option('--python <path>', 'engine torch: the Python from which the environment is made')
    .option('--settings', "engine torch: lists what PyTorch's ranks do with each setting of a config");
  perform<EngineOptions>(command, async ([name], options, output) => {
    checkUsage(name, options);
    if (options.settings === true) output.answer({ settings: settings() }, settingsText);
    else if (name === 'torch') await makeTorch(options, io, output);
    else await listEngines(name, io, output);
    return 0;
  });
}

function checkUsage(
  name: string | undefined,
  { cuda, deepspeed, python, settings: lists }: EngineOptions,
): void {
  if (name !== undefined && !NAMES.some((known) => known === name)) {
    const near = nearest(name, NAMES);
    throw new ConfigError(
      `there is no engine '${name}'; ${near === undefined ? `give ${NAMES.join(' or ')}` : `did you mean ${near}?`}`,
    );
  }
  const torchOption = Object.entries({ '--cuda': cuda, '--deepspeed': deepspeed, '--python': python }).find(
    ([, value]) => value !== undefined,
  );
  if (torchOption !== undefined && (name !== 'torch' || lists === true)) {
    throw new ConfigError(
      `${torchOption[0]} belongs to \`shardlab engine torch\`, which makes the environment`,
    );
  }
  if (lists === true && name === 'wasm') {
    throw new ConfigError(
      "--settings lists what PyTorch's ranks do; engine wasm does every setting (docs/settings.md)",
    );
  }
}

async function makeTorch(request: TorchRequest, io: Io, output: Output): Promise<void> {
  const stop = new AbortController();
  const interrupt = (): void => stop.abort();
  const signals = ['SIGINT', 'SIGTERM'] as const;
  for (const name of signals) process.on(name, interrupt);
  try {
    const made = await ensureTorch(request, io, output.note, stop.signal);
    const named = io.env.SHARDLAB_TORCH_PYTHON;
    if (named) output.note(`ranks use ${named} instead, because SHARDLAB_TORCH_PYTHON names it`);
    const cuda = made.cuda === null ? 'without CUDA' : `CUDA ${made.cuda}`;
    output.answer(made, () => `ready: torch ${made.torch} (${cuda}) in ${made.environment}`);
  } finally {
    for (const name of signals) process.off(name, interrupt);
  }
}

async function listEngines(name: string | undefined, io: Io, output: Output): Promise<void> {
  const [wasm] = await checkWasm(sitePackages(io.env, INSTALLATION));
  const [torch] = await checkTorch(io.env, { withImport: false });
  const rows = { wasm, torch } satisfies Record<(typeof NAMES)[number], Check | undefined>;
  const shown = Object.entries(rows).flatMap(([engine, check]) =>
    check === undefined || (name !== undefined && name !== engine) ? [] : [{ engine, check }],
  );
  const engines = shown.map(({ engine, check: { status, found, advice } }) => {
    return { name: engine, ready: status === 'good', found, ...(advice === undefined ? {} : { advice }) };
  });
  output.answer({ engines }, () => shown.map(({ check }) => asLine(check)).join('\n'));
}

/** A setting, and what PyTorch's ranks do with it under the default framework. */
interface SettingRow {
  readonly setting: string;
  readonly support: 'done' | 'refused' | 'ignored';
  readonly reason?: string;
}

function settings(): readonly SettingRow[] {
  return WHOLE_SETTINGS.map((row): SettingRow => {
    const [setting, support] = [row.path, torchSupport(row)];
    if (support === 'done') return { setting, support };
    return 'refused' in support
      ? { setting, support: 'refused', reason: support.refused }
      : { setting, support: 'ignored', reason: support.ignored };
  });
}

const WORDS = { done: '✓ done', ignored: '· no effect', refused: '✗ refused' } as const;

function settingsText(): string {
  const rows = settings();
  const width = Math.max(...rows.map(({ setting }) => setting.length));
  return rows
    .map(({ setting, support, reason = '' }) =>
      `${setting.padEnd(width)}  ${WORDS[support].padEnd(11)}  ${reason}`.trimEnd(),
    )
    .join('\n');
}
