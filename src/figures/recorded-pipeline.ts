import { ConfigError } from '../core/errors';
import { mean, median } from '../core/statistics';
import type { Seconds } from '../core/units';
import type { SpanRecord, StepRecord } from '../ledger/record';
import type { Action, ActionKind, PipelineSizes } from '../parallel/pipeline/schedules';
import type { RunView } from './run-view';
import { lastSteps, typicalStep } from './step-times';

/** A pipeline as its ranks' spans show it: the actions of every rank, in order, with the CPU time of each action. */
export interface RecordedPipeline {
  readonly sizes: PipelineSizes;
  readonly splitsBackward: boolean;
  readonly byRank: readonly (readonly TakenAction[])[];
  /**
   * For each entry of `byRank`, the job's ranks that run the entry's actions, with different data or with different parts of
   * the same stages.
   */
  readonly ranks: readonly (readonly number[])[];
}

interface TakenAction extends Action {
  readonly seconds: Seconds;
}

/** Returns the step nearest to the last steps' medians, among the last steps with a pipeline. */
export function pipelineStep(run: RunView): number {
  const [typical] = typicalStep(run, (records) => records.some(({ spans }) => spans.some(isPipelineSpan)));
  if (typical === undefined) throw noPipeline();
  return typical.step;
}

/** Returns the pipelines of the last steps that ran the same actions as the step of `records`. */
export function alikePipelines(run: RunView, records: readonly StepRecord[]): readonly RecordedPipeline[] {
  const own = recordedPipeline(records);
  const steps = lastSteps(run).filter((step) => step.some(({ spans }) => spans.some(isPipelineSpan)));
  const alike = steps.map(recordedPipeline).filter((other) => orderOf(other) === orderOf(own));
  return alike.length === 0 ? [own] : alike;
}

function orderOf({ byRank }: RecordedPipeline): string {
  return JSON.stringify(
    byRank.map((own) => own.map(({ kind, microbatch, chunk }) => [kind, microbatch, chunk])),
  );
}

/** Combines the pipelines of several steps with the same actions; the time of an action is the median over these steps. */
export function typicalPipeline(pipelines: readonly RecordedPipeline[]): RecordedPipeline {
  const [first] = pipelines as readonly [RecordedPipeline]; // one pipeline per step, and at least one step
  const medianOf = (rank: number, i: number): Seconds =>
    median(pipelines.map(({ byRank }) => byRank[rank]?.[i]?.seconds ?? 0));
  const byRank = first.byRank.map((own, rank) =>
    own.map((action, i) => ({ ...action, seconds: medianOf(rank, i) })),
  );
  return { ...first, byRank };
}

type PipelineSpan = SpanRecord & { readonly pipeline: NonNullable<SpanRecord['pipeline']> };

function isPipelineSpan(span: SpanRecord): span is PipelineSpan {
  return span.pipeline !== undefined;
}

/** Reads the pipeline from spans. Ranks with the same stages are replicas; each action has the mean time of its replicas. */
export function recordedPipeline(records: readonly StepRecord[]): RecordedPipeline {
  const replicas = new Map<string, { readonly ranks: number[]; readonly spans: PipelineSpan[][] }>();
  for (const { rank, spans } of records) {
    const own = spans.filter(isPipelineSpan);
    if (own.length === 0) continue;
    const key = [...new Set(own.map(({ pipeline }) => pipeline.stage))].sort((a, b) => a - b).join();
    const { ranks, spans: others } = replicas.get(key) ?? { ranks: [], spans: [] };
    replicas.set(key, { ranks: [...ranks, rank], spans: [...others, own] });
  }
  const ordered = [...replicas].sort(([a], [b]) => Number.parseInt(a, 10) - Number.parseInt(b, 10));
  const [first] = ordered;
  if (first === undefined) throw noPipeline();
  const virtualStages = first[0].split(',').length;
  const spans = ordered.flatMap(([, own]) => own.spans.flat());
  const numMicrobatches = 1 + Math.max(...spans.map(({ pipeline }) => pipeline.microbatch));
  return {
    sizes: { numRanks: ordered.length, numMicrobatches, virtualStages },
    splitsBackward: spans.some(({ pipeline }) => pipeline.half !== undefined),
    byRank: ordered.map(([, own]) => meanActions(own.spans, ordered.length)),
    ranks: ordered.map(([, own]) => own.ranks),
  };
}

function meanActions(replicas: readonly (readonly PipelineSpan[])[], numRanks: number): TakenAction[] {
  const [first = []] = replicas;
  return first.map((span, i) => {
    const times = replicas.flatMap((own) => own[i] ?? []).map(secondsIn);
    const { stage, microbatch } = span.pipeline;
    return { kind: kindOf(span), microbatch, chunk: Math.floor(stage / numRanks), seconds: mean(times) };
  });
}

function secondsIn({ start, end, pipeline: { cpu } }: PipelineSpan): Seconds {
  return cpu ?? end - start;
}

function kindOf({ name, pipeline: { half } }: PipelineSpan): ActionKind {
  if (name === 'forward') return 'forward';
  return half === undefined ? 'backward' : half === 'input' ? 'backwardInput' : 'backwardWeight';
}

function noPipeline(): ConfigError {
  return new ConfigError(
    'these steps ran no pipeline; run schedule.step(x, { target }) of Schedule1F1B or another schedule, then draw again',
  );
}
