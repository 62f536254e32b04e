import { z } from 'zod';
import { Progress, type ProgressPlace } from '../../cell';
import {
  atLeast0Schema,
  countSchema,
  functionSchema,
  isVideoModel,
  modelShape,
  parseOptions,
  type ShapeOf,
  wholeSchema,
} from '../../config';
import {
  ConfigError,
  formatSeconds,
  now,
  type Seconds,
  type Shown,
  shownAsText,
  withShown,
} from '../../core';
import type { Tensor } from '../../core/tf';
import { counted } from '../../figures';
import type { RankScope, RankVariables } from '../../launch';
import {
  type EvaluationResult,
  type FileBatch,
  limitsOf,
  type Rewards,
  type TextCodec,
} from '../../training';
import type { RunParts } from './calls';
import type { JobData } from './data';

/** The loss on rows that are never trained on. Shown in a notebook as one line. */
export interface Evaluation<Name extends string = string> extends Shown {
  /** Number of the last step before the evaluation; 0 before the first step. */
  readonly step: number;
  /** The mean loss of all rows, in nats for a language model. */
  readonly loss: number;
  /** e to the power of the loss: the number of equally probable tokens that would have this loss; null if rows have no tokens. */
  readonly perplexity: number | null;
  /** The value of each given metric: its mean over all rows. */
  readonly metrics: Readonly<Record<Name, number>>;
  /** The mean rewards of all pairs. Omitted unless the training is DPO. */
  readonly rewards?: Rewards;
  /** The number of evaluated rows (of DPO: pairs), summed over ranks. */
  readonly rows: number;
  readonly seconds: Seconds;
}

/**
 * A function that gets the model's output and the batch, and returns a number: the mean over the batch's rows. It is sent to
 * ranks as source code. Shapes: for gpt, moe and llama, the output is logits [B, T, V], and the batch has x and y [B, T].
 */
export type Metric<Output = Tensor, Batch = FileBatch> = (
  output: Output,
  batch: Batch,
  scope: RankScope & RankVariables,
) => Tensor | number;

/** The values that `run.evaluate` computes besides the loss. */
export interface EvaluateOptions<Name extends string = string, Output = Tensor, Batch = FileBatch> {
  readonly metrics?: Readonly<Record<Name, Metric<Output, Batch>>>;
}

/** Options that say how `run.sample` chooses tokens. */
export interface SampleOptions {
  /** The number of tokens to add. Default 100. */
  readonly tokens?: number;
  /** The logits are divided by this number; 0 takes the most probable token each time. Default 1. */
  readonly temperature?: number;
  /** The number of most probable tokens to choose from. Default: all. */
  readonly topK?: number | null;
  /** The seed of the random choices. Default 0. */
  readonly seed?: number;
}

const METRIC = functionSchema<Metric>().describe(
  'a function, such as (output, batch, { tf }) => tf.mean(tf.abs(tf.sub(output, batch.y)))',
);

const EVALUATE = {
  metrics: z.record(z.string(), METRIC).default({}),
} satisfies ShapeOf<EvaluateOptions>;

const SAMPLE = {
  tokens: countSchema.default(100),
  temperature: atLeast0Schema.default(1),
  topK: countSchema.nullable().default(null),
  seed: wholeSchema.default(0),
} satisfies ShapeOf<SampleOptions>;

/** Evaluates a run; `Run.evaluate` says how. */
export async function evaluateRun<Name extends string = never, Output = Tensor, Batch = FileBatch>(
  parts: RunParts,
  options: EvaluateOptions<Name, Output, Batch> = {},
  place: ProgressPlace = {},
): Promise<Evaluation<Name>> {
  const given: object = options; // a metric's types are those of the user's model
  const { metrics: functions } = parseOptions('run.evaluate({ … })', given, EVALUATE);
  const sources = Object.fromEntries(
    Object.entries(functions).map(([name, metric]) => [name, String(metric)]),
  );
  const { number: run, calls, history } = parts;
  const start = now();
  const line = new Progress('evaluating', 'batches', place);
  const work = { kind: 'evaluate', run, metrics: sources } as const;
  const ranks = await calls
    .on<EvaluationResult>(history.phase.world, work, {
      progress: (_, { done, total }) => line.show(done, total),
    })
    .finally(() => line.end());
  const { loss = Number.NaN, rows = 0, countedRows = false, metrics: means = {}, rewards } = ranks[0] ?? {};
  history.evaluated(loss);
  const { config } = history.phase;
  const isOfTokens = !countedRows && config.dpo === null && !isVideoModel(modelShape(config));
  const perplexity = isOfTokens ? Math.exp(loss) : null;
  const metrics = means as Evaluation<Name>['metrics']; // ranks return a mean for each name that they got
  const ofPairs = rewards === undefined ? {} : { rewards };
  const facts = {
    step: history.lastStep,
    loss,
    perplexity,
    metrics,
    ...ofPairs,
    rows,
    seconds: now() - start,
  };
  const { margin, accuracy } = rewards ?? {};
  const shownMeans = margin === undefined ? means : { margin, accuracy, ...means };
  const others = Object.entries(shownMeans).map(
    ([name, mean = Number.NaN]) => `, ${name} ${mean.toFixed(4)}`,
  );
  const aside = perplexity === null ? '' : ` (perplexity ${perplexity.toPrecision(4)})`;
  const text = `step ${history.lastStep}: validation loss ${loss.toFixed(4)}${aside}${others.join('')} over ${counted(rows, config.dpo === null ? 'row' : 'pair')} in ${formatSeconds(facts.seconds)}`;
  return withShown(facts, shownAsText(text));
}

/** Samples from a run; `Run.sample` says how. */
export async function sampleRun<Prompt extends string | readonly number[]>(
  parts: RunParts & { readonly jobData: JobData },
  prompt: Prompt,
  options: SampleOptions,
): Promise<Prompt extends string ? string : number[]> {
  const how = parseOptions('run.sample(prompt, { … })', options, SAMPLE);
  const { number: run, calls, history, jobData } = parts;
  const { config, world } = history.phase;
  limitsOf(config); // Refuses a model without tokens, before ranks get work.
  const codec = typeof prompt === 'string' ? await jobData.codecOf(config) : null;
  const ids = codec === null ? idsOf(prompt) : Array.from(codec.encode(String(prompt)));
  if (ids.length === 0)
    throw new ConfigError("run.sample: the prompt is empty; give at least one token, such as '\\n'");
  const line = new Progress('sampling', 'tokens');
  const work = { kind: 'sample', run, ids, ...how } as const;
  const [all = []] = await calls
    .on<number[]>(world, work, { progress: (_, { done, total }) => line.show(done, total) })
    .finally(() => line.end());
  const made = codec === null ? all : textOf(codec, all);
  return made as Prompt extends string ? string : number[]; // a text prompt gives a text, and ids give ids
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
