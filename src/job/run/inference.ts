import { requireKnownOptions } from '../../config/option-names';
import { ConfigError } from '../../core/errors';
import { formatSeconds, now, type Seconds } from '../../core/units';
import type { TextCodec } from '../../data/prepare/tokenizer';
import { counted } from '../../figures/format';
import { type Shown, shownAsText, withShown } from '../../figures/shown';
import type { Evaluated } from '../../train/evaluation';
import type { RunParts } from './calls';
import type { JobData } from './data';
import { createProgressLine } from './progress';

/** The loss on rows that are never trained on. Shown in a notebook as one line. */
export interface Evaluation extends Shown {
  /** Mean over all rows. */
  readonly loss: number;
  /** e to the loss: for tokens, the number of equally probable tokens that would have this loss. */
  readonly perplexity: number;
  /** Number of rows of all ranks. */
  readonly rows: number;
  readonly seconds: Seconds;
}

/** How `run.sample` chooses tokens. */
export interface SampleOptions {
  /** The number of tokens to add. Default 100. */
  readonly tokens?: number;
  /** The logits are divided by it; 0 takes the most probable token each time. Default 1. */
  readonly temperature?: number;
  /** The number of most probable tokens to choose from. Default: all. */
  readonly topK?: number | null;
  /** The seed of the random choices. Default 0. */
  readonly seed?: number;
}

/** Work that takes longer shows its progress. */
const SHOWN_AFTER: Seconds = 0.5;

/** Evaluates a run; `Run.evaluate` says how. */
export async function evaluateRun(parts: RunParts): Promise<Evaluation> {
  const { number: run, calls, history } = parts;
  const start = now();
  const line = createProgressLine();
  const ranks = await calls.on<Evaluated>(
    history.phase.world,
    { kind: 'evaluate', run },
    {
      progress: (_, { done, total }) => {
        if (now() - start > SHOWN_AFTER)
          line.show(`evaluating: batch ${done} of ${total}, ${left(start, done, total)}`, done, total);
      },
    },
  );
  const { loss = Number.NaN, rows = 0 } = ranks[0] ?? {};
  const facts = { loss, perplexity: Math.exp(loss), rows, seconds: now() - start };
  const text = `step ${history.lastStep}: validation loss ${loss.toFixed(4)} (perplexity ${facts.perplexity.toPrecision(4)}) over ${counted(rows, 'row')} in ${formatSeconds(facts.seconds)}`;
  if (facts.seconds > SHOWN_AFTER) line.finish(text);
  return withShown(facts, shownAsText(text));
}

/** Samples from a run; `Run.sample` says how. */
export async function sampleRun<Prompt extends string | readonly number[]>(
  parts: RunParts & { readonly jobData: JobData },
  prompt: Prompt,
  options: SampleOptions,
): Promise<Prompt extends string ? string : number[]> {
  const how = checkedOptions(options);
  const { number: run, calls, history, jobData } = parts;
  const { config, world } = history.phase;
  const codec = typeof prompt === 'string' ? await jobData.codecOf(config) : null;
  const ids = codec === null ? idsOf(prompt) : Array.from(codec.encode(String(prompt)));
  if (ids.length === 0)
    throw new ConfigError("run.sample: the prompt is empty; give at least one token, such as '\\n'");
  const [start, line] = [now(), createProgressLine()];
  const [all = []] = await calls.on<number[]>(
    world,
    { kind: 'sample', run, ids, ...how },
    {
      progress: (_, { done, total }) => {
        if (now() - start > SHOWN_AFTER)
          line.show(`sampling: token ${done} of ${total}, ${left(start, done, total)}`, done, total);
      },
    },
  );
  if (now() - start > SHOWN_AFTER)
    line.finish(`${counted(how.tokens, 'token')} in ${formatSeconds(now() - start)}`);
  const made = codec === null ? all : textOf(codec, all);
  return made as Prompt extends string ? string : number[]; // a text for a text
}

function checkedOptions(options: SampleOptions) {
  requireKnownOptions('run.sample(prompt, { … })', options, ['tokens', 'temperature', 'topK', 'seed']);
  const { tokens = 100, temperature = 1, topK = null, seed = 0 } = options;
  if (!(Number.isInteger(tokens) && tokens > 0)) throw wrong('tokens', tokens, 'an integer from 1');
  if (!(temperature >= 0 && temperature < Infinity))
    throw wrong('temperature', temperature, 'a number from 0');
  if (topK !== null && !(Number.isInteger(topK) && topK > 0))
    throw wrong('topK', topK, 'an integer from 1, or null');
  if (!Number.isInteger(seed)) throw wrong('seed', seed, 'an integer');
  return { tokens, temperature, topK, seed };
}

function wrong(key: string, value: unknown, expected: string): ConfigError {
  return new ConfigError(`run.sample: ${key} is ${String(value)}; give ${expected}`);
}

function idsOf(prompt: unknown): number[] {
  if (Array.isArray(prompt) && prompt.every((id) => typeof id === 'number')) return prompt;
  throw new ConfigError(`run.sample takes a text, or a list of token ids, not ${String(prompt)}`);
}

/** Returns the text of ids; a token that the tokenizer does not have is shown as '�'. */
function textOf(codec: TextCodec, ids: readonly number[]): string {
  const unknown = ids.findIndex((id) => id >= codec.vocab);
  if (unknown < 0) return codec.decode(ids);
  return `${codec.decode(ids.slice(0, unknown))}�${textOf(codec, ids.slice(unknown + 1))}`;
}

function left(start: Seconds, done: number, total: number): string {
  return `${Math.ceil(((now() - start) * (total - done)) / done)} s left`;
}
