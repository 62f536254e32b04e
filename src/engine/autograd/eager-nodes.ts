import { describeTensor, type EndOfRecording, type LostPath, markLost } from './lost-path';
import { changedSince, type RecordedNode } from './recording';

/** The operations that a loss depends on, and all other operations; both in the order of the recording. */
export interface Reached {
  readonly reached: readonly RecordedNode[];
  readonly rest: readonly RecordedNode[];
  /** The ids of all tensors through which the loss depends on the reached operations' inputs. */
  readonly ids: ReadonlySet<number>;
}

/** Divides a recording's operations by whether the tensor with this id depends on them. */
export function reachedFrom(id: number, nodes: readonly RecordedNode[]): Reached {
  const ids = new Set([id]);
  const reached: RecordedNode[] = [];
  const rest: RecordedNode[] = [];
  for (const node of nodes.toReversed()) {
    const isReached = node.outputs.some((output) => ids.has(output.id));
    (isReached ? reached : rest).push(node);
    if (isReached) for (const source of sourcesOf(node)) ids.add(source);
  }
  return { reached: reached.reverse(), rest: rest.reverse(), ids };
}

/** Operations through which a backward has run, and the mark of their results. */
interface Ended {
  readonly nodes: readonly RecordedNode[];
  readonly end: EndOfRecording;
}

/** The operations of a recording that a backward may still reach, and those that were released. */
export interface Sorted {
  readonly usable: readonly RecordedNode[];
  readonly released: readonly RecordedNode[];
}

/**
 * Releases the operations that can no longer be part of a backward. These are operations that depend on the outputs of `ended`;
 * operations that saved a parameter which has changed, with all that depends on them; and operations whose outputs are all
 * disposed, unless another operation needs them.
 */
export function releaseUnusable(nodes: readonly RecordedNode[], ended?: Ended): Sorted {
  const lost = new Map<number, LostPath | EndOfRecording>();
  const lose = (node: RecordedNode, why: LostPath | EndOfRecording): void => {
    for (const output of node.outputs) lost.set(output.id, why);
  };
  if (ended !== undefined) for (const node of ended.nodes) lose(node, ended.end);
  const intact = nodes.filter((node) => {
    const changed = changedSince(node);
    const source = sourcesOf(node).find((id) => lost.has(id)) ?? Number.NaN;
    const why =
      changed === undefined ? lost.get(source) : ({ reason: 'changed', parameter: changed.name } as const);
    if (why === undefined) return true;
    lose(node, why);
    releaseNode(node);
    markOutputs(node, why);
    return false;
  });
  const usable = withResults(intact);
  const kept = new Set(usable);
  return { usable, released: nodes.filter((node) => !kept.has(node)) };
}

/** Releases the operations whose outputs are all disposed and that no other operation needs; returns the others. */
function withResults(nodes: readonly RecordedNode[]): RecordedNode[] {
  const needed = new Set<number>();
  const kept = groups(nodes).filter((group) => {
    const isNeeded = group.some((node) => isAlive(node) || node.outputs.some(({ id }) => needed.has(id)));
    for (const node of group) {
      if (isNeeded) for (const id of sourcesOf(node)) needed.add(id);
      else releaseNode(node);
    }
    return isNeeded;
  });
  return kept.reverse().flat();
}

/** Returns each operation with the clones that it saves, which follow it on the tape; the last group comes first. */
function groups(nodes: readonly RecordedNode[]): RecordedNode[][] {
  const nodeGroups: RecordedNode[][] = [];
  for (const node of nodes) {
    const last = nodeGroups.at(-1);
    if (node.isSavedClone === true && last !== undefined) last.push(node);
    else nodeGroups.push([node]);
  }
  return nodeGroups.reverse();
}

/** Releases the operations at a tape's end whose results are all disposed, because no loss can depend on them. */
export function dropDead(tape: RecordedNode[]): void {
  for (;;) {
    const last = tape.findLastIndex((node) => node.isSavedClone !== true);
    const node = tape[last];
    if (node === undefined || isAlive(node)) return;
    for (const each of tape.splice(last)) releaseNode(each);
  }
}

/** Whether code may still use an output of the operation. */
function isAlive({ outputs, isSavedClone = false }: RecordedNode): boolean {
  return !isSavedClone && outputs.some((output) => !output.isDisposed);
}

/** Marks the outputs that still exist; the mark of an ended recording describes each of them. See [Note: lost paths]. */
export function markOutputs({ outputs, kernelName }: RecordedNode, path: LostPath | EndOfRecording): void {
  for (const output of outputs) {
    if (output.isDisposed) continue;
    markLost(output, 'place' in path ? { ...path, description: describeTensor(output, kernelName) } : path);
  }
}

/** Frees what an operation saved. */
function releaseNode(node: RecordedNode): void {
  for (const tensor of node.saved ?? []) tensor.dispose();
  node.release?.();
}

function sourcesOf({ sources, inputs }: RecordedNode): readonly number[] {
  return sources ?? Object.values(inputs).flatMap((input) => (input == null ? [] : input.id));
}
