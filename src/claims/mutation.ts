import { setImmediate } from 'node:timers/promises';
import type { ClaimEntry, Facts } from './entry';
import type { Verdict } from './finding';
import type { PlanLab } from './lab';
import { factsFor, type RecordedRuns } from './survey';

/** A number of the evidence is multiplied by each factor; a zero is replaced by each factor; a boolean is inverted. */
const FACTORS = [0, 0.5, 0.9, 1.1, 2, 10] as const;

/** A change of one piece of evidence, and the verdict that follows from it. */
export interface Move {
  /** The changed piece, such as 'fact sparseRatio', 'prediction seconds.value of {…}', 'figure found'. */
  readonly piece: string;
  readonly factor: number;
  readonly verdict: Verdict;
}

/** Whether a verdict depends on its evidence. */
export interface Mutation {
  readonly id: string;
  readonly verdict: Verdict;
  /** The number of pieces of evidence that the verdict reads. */
  readonly numPieces: number;
  /** The first change of evidence that changes the verdict; undefined if none does. */
  readonly move: Move | undefined;
  /** Why the verdict is a judgement, which no evidence can change; undefined if the verdict is derived. */
  readonly judged: string | undefined;
}

/**
 * Changes every piece of evidence of each claim, one at a time, until the verdict changes. In addition, the found
 * number is replaced by the documented one, because the factors may miss this number. Each prediction is computed once.
 */
export async function mutateClaims(
  entries: readonly ClaimEntry[],
  lab: PlanLab,
  recorded: RecordedRuns,
  progress: (done: number, total: number, id: string) => void = () => undefined,
): Promise<Mutation[]> {
  const remembering = rememberingLab(lab);
  const mutations: Mutation[] = [];
  for (const [done, entry] of entries.entries()) {
    progress(done, entries.length, entry.claim.id);
    await setImmediate(); // so that the progress is drawn
    mutations.push(mutateClaim(entry, remembering, factsFor(entry, recorded)));
  }
  return mutations;
}

function mutateClaim(entry: ClaimEntry, lab: PlanLab, facts: Facts): Mutation {
  const { claim, judged } = entry;
  if (judged !== undefined) {
    return { id: claim.id, verdict: entry.expected.verdict, numPieces: 0, move: undefined, judged };
  }
  const pieces = new Map<string, number | boolean>();
  const verdict = verdictWith(entry, lab, facts, (piece, value) => {
    pieces.set(piece, value);
    return value;
  });
  const base = { id: claim.id, verdict, numPieces: pieces.size, judged };
  for (const [piece, value] of pieces) {
    for (const factor of factorsOf(entry, piece, value)) {
      const moved = verdictIf(entry, lab, facts, piece, factor);
      if (moved !== undefined && moved !== verdict)
        return { ...base, move: { piece, factor, verdict: moved } };
    }
  }
  return { ...base, move: undefined };
}

function factorsOf({ claim }: ClaimEntry, piece: string, value: number | boolean): readonly number[] {
  const { documented } = claim;
  const isFound = piece === 'figure found' || piece === 'figure measured';
  if (!isFound || typeof documented !== 'number' || typeof value !== 'number' || value === 0) return FACTORS;
  return [...FACTORS, documented / value];
}

/** Returns the verdict with one piece changed; undefined if the check fails with this change. */
function verdictIf(
  entry: ClaimEntry,
  lab: PlanLab,
  facts: Facts,
  piece: string,
  factor: number,
): Verdict | undefined {
  try {
    return verdictWith(entry, lab, facts, (read, value) => (read === piece ? changed(value, factor) : value));
  } catch {
    return undefined; // for example, a number is not defined
  }
}

type Read = (piece: string, value: number | boolean) => number | boolean;

function changed(value: number | boolean, factor: number): number | boolean {
  if (typeof value === 'boolean') return !value;
  return value === 0 ? factor : value * factor;
}

/** Returns a claim's verdict; each piece of evidence that the check reads passes through `read`. */
function verdictWith(entry: ClaimEntry, lab: PlanLab, facts: Facts, read: Read): Verdict {
  const seen = <Value extends object>(kind: string, request: unknown, value: Value): Value => {
    const of = JSON.stringify(request);
    return watched(value, (path, each) => read(`${kind} ${path} of ${of}`, each));
  };
  const watching: PlanLab = {
    predict: (request) => seen('prediction', request, lab.predict(request)),
    memory: (request) => seen('memory', request, lab.memory(request)),
    figure: (name, value) => Number(read(`figure ${name}`, lab.figure(name, value))),
  };
  return entry.verdict(
    watching,
    watched(facts, (name, value) => read(`fact ${name}`, value)),
  );
}

/** Returns an object whose numbers and booleans, including those of inner objects, pass through `read` when they are used. */
function watched<Value extends object>(value: Value, read: Read, before = ''): Value {
  return new Proxy(value, {
    get(target, key) {
      const member: unknown = Reflect.get(target, key);
      if (typeof key === 'symbol') return member;
      const path = `${before}${key}`;
      if (typeof member === 'number' || typeof member === 'boolean') return read(path, member);
      const isInner = typeof member === 'object' && member !== null && !Array.isArray(member);
      return isInner ? watched(member, read, `${path}.`) : member;
    },
  });
}

/** Returns a lab that computes each prediction once; if a prediction threw an error, the lab throws the same error again. */
function rememberingLab(lab: PlanLab): PlanLab {
  const once = <Request, Result>(compute: (request: Request) => Result): ((request: Request) => Result) => {
    const results = new Map<string, () => Result>();
    return (request) => {
      const key = JSON.stringify(request);
      const known = results.get(key) ?? settled(() => compute(request));
      results.set(key, known);
      return known();
    };
  };
  return { ...lab, predict: once(lab.predict), memory: once(lab.memory) };
}

function settled<Result>(compute: () => Result): () => Result {
  try {
    const result = compute();
    return () => result;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}
