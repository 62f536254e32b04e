import {
  type Attribute,
  type Extent,
  type FreeDim,
  isExtent,
  type TracedNode,
  type TracedNumber,
  type TracedValue,
} from './program';
import type { RecordedForward, SeenValue } from './recorder';

/** A forward of a batch with another extent of one dim than the first forward's batch. */
export interface Variant {
  readonly forward: RecordedForward;
  /** The dim that differs; null: the batches have the same shapes and other values. */
  readonly dim: FreeDim | null;
  /** The extents of this dim in the first forward and in this one. */
  readonly from: number;
  readonly to: number;
}

/** What several forwards have in common. */
export interface MergedForward {
  readonly values: readonly TracedValue[];
  readonly body: readonly TracedNode[];
  /** The values of constants, by their names in the program. */
  readonly constants: ReadonlyMap<string, SeenValue>;
}

/** Two forwards that do not do the same; `line` is the user's line of the first difference. */
export class Difference extends Error {
  readonly line: string;

  constructor(subject: string, line: string) {
    super(subject);
    this.line = line;
  }
}

/** Returns a program for all forwards. Throws: Difference if they do other operations, or with numbers that fit no extent. */
export function mergeForwards(first: RecordedForward, variants: readonly Variant[]): MergedForward {
  const body = new Merger(variants).nodes(
    first.body,
    variants.map(({ forward }) => forward.body),
  );
  const constants = new Map<string, NamedConstant>();
  const values = first.values.map((value, id): TracedValue => {
    const all = variants.map(({ forward }) => forward.values[id]);
    const same = all.filter(
      (part): part is SeenValue => part?.dtype === value.dtype && part.source.kind === value.source.kind,
    );
    if (same.length < all.length) throw new Difference('other tensors', '');
    const merger = new Merger(variants);
    const shape = value.shape.map((extent, dim) =>
      merger.number(
        extent,
        same.map((part) => part.shape[dim]),
        'a shape',
      ),
    );
    return {
      dtype: value.dtype,
      shape,
      source: sourceOf(value, same, merger, constants),
    };
  });
  return {
    values,
    body,
    constants: new Map([...constants.values()].map(({ name, value }) => [name, value])),
  };
}

/** A constant, with its name in the program. */
interface NamedConstant {
  readonly name: string;
  readonly value: SeenValue;
}

/**
 * Returns where a tensor comes from. `constants` has the constants by `keyOf`, and gets new ones. Equal constants have one name, so
 * calls and modules with equal constants have the same code.
 */
function sourceOf(
  value: SeenValue,
  others: readonly SeenValue[],
  merger: Merger,
  constants: Map<string, NamedConstant>,
): TracedValue['source'] {
  if (value.source.kind !== 'constant') return value.source;
  const all = [value, ...others];
  const numbers = all.map((part) => numberIn(part));
  const [number, ...otherNumbers] = numbers;
  if (number !== undefined && otherNumbers.every((part) => part !== undefined))
    return { kind: 'number', value: merger.number(number, otherNumbers, 'a number in the code') };
  const key = keyOf(value);
  if (others.some((part) => keyOf(part) !== key))
    throw new Difference('a tensor of values in the code differs between batches', '');
  const constant = constants.get(key) ?? { name: `constant_${constants.size}`, value };
  constants.set(key, constant);
  return { kind: 'constant', name: constant.name };
}

/** Returns a text that only equal constants have; bytes tell infinities from each other and from NaN, which JSON does not. */
function keyOf({ dtype, shape, source }: SeenValue): string {
  const values = source.kind === 'constant' ? source.values : [];
  return `${dtype} ${shape} ${Buffer.from(Float64Array.from(values).buffer).toString('latin1')}`;
}

/** Returns the number that all elements of a constant are; undefined if they differ. */
function numberIn({ source }: SeenValue): number | undefined {
  if (source.kind !== 'constant') return undefined;
  const [number] = source.values;
  return source.values.every((value) => value === number) ? number : undefined;
}

/** Compares forwards part by part. */
class Merger {
  readonly #variants: readonly Variant[];

  constructor(variants: readonly Variant[]) {
    this.#variants = variants;
  }

  nodes(nodes: readonly TracedNode[], others: readonly (readonly TracedNode[])[]): readonly TracedNode[] {
    return nodes.map((node, i) => {
      const same = others.map((list) => list[i]);
      const isLast = i === nodes.length - 1;
      if (same.some((part) => part === undefined || headOf(part) !== headOf(node)))
        throw new Difference('other operations', node.line);
      if (isLast && others.some((list) => list.length > nodes.length))
        throw new Difference(
          'other operations',
          others.find((list) => list.length > nodes.length)?.[i + 1]?.line ?? '',
        );
      if (node.kind === 'call')
        return {
          ...node,
          body: this.nodes(
            node.body,
            same.map((part) => (part?.kind === 'call' ? part.body : [])),
          ),
        };
      const attrs = same.map((part) => (part?.kind === 'operation' ? part.attrs : {}));
      return { ...node, attrs: this.attribute(node.attrs, attrs, node.line) as typeof node.attrs }; // an object stays an object
    });
  }

  attribute(value: Attribute, others: readonly (Attribute | undefined)[], line: string): Attribute {
    if (typeof value === 'number') return this.number(value, others, `an attribute`, line);
    if (typeof value !== 'object' || value === null || isExtent(value)) {
      if (others.every((part) => part === value)) return value;
      throw new Difference('another attribute', line);
    }
    const entries = Object.entries(value as Readonly<Record<string, Attribute>>).map(([key, inner]) => {
      const same = others.map((part) => (part as Readonly<Record<string, Attribute>> | undefined)?.[key]);
      return [key, this.attribute(inner, same, line)] as const;
    });
    return Array.isArray(value) ? entries.map(([, inner]) => inner) : Object.fromEntries(entries);
  }

  /** Returns the extent that the number has in all forwards. Throws: Difference. */
  number(value: number, others: readonly unknown[], subject: string, line = ''): TracedNumber {
    const seen = this.#variants.map((variant, i) => ({ ...variant, changed: others[i] }));
    if (seen.every(({ changed }) => Object.is(changed, value))) return value;
    const extent = extentOf(value, seen);
    const sizeOf = (dim: FreeDim): number => seen.find((variant) => variant.dim === dim)?.from ?? 1;
    const fits = seen.every(({ dim, to, changed }) => {
      const sizes = {
        batch: sizeOf('batch'),
        sequence: sizeOf('sequence'),
        ...(dim !== null && { [dim]: to }),
      };
      return typeof changed === 'number' && extent !== null && isNear(extentIn(extent, sizes), changed);
    });
    if (extent === null || !fits) throw new Difference(subject, line);
    return extent;
  }
}

/** A number of another forward, in the place of the first forward's number. */
interface SeenNumber extends Variant {
  readonly changed: unknown;
}

const FREE_DIMS: readonly FreeDim[] = ['batch', 'sequence'];

/** Returns the extent that a number has by one other forward per dim; null if there is none. Further forwards must confirm it. */
function extentOf(value: number, seen: readonly SeenNumber[]): Extent | null {
  const differ = FREE_DIMS.flatMap((dim) => {
    const first = seen.find((variant) => variant.dim === dim && !Object.is(variant.changed, value));
    return first === undefined ? [] : [{ ...first, dim }];
  });
  let extent: Extent = { factor: value, batch: 0, sequence: 0, offset: 0 };
  for (const { dim, from, to, changed } of differ) {
    if (typeof changed !== 'number') return null;
    const power = isNear(value * to, changed * from) ? 1 : isNear(value * from, changed * to) ? -1 : 0;
    if (power !== 0) {
      extent = { ...extent, factor: extent.factor / from ** power, [dim]: power };
      continue;
    }
    const slope = (changed - value) / (to - from);
    if (differ.length > 1 || !Number.isInteger(slope)) return null;
    return { factor: slope, batch: 0, sequence: 0, [dim]: 1, offset: value - slope * from };
  }
  const { batch, sequence, factor } = extent;
  const isWhole = Number.isInteger(factor) || batch < 0 || sequence < 0 || !Number.isInteger(value);
  return isWhole ? extent : null;
}

function extentIn(
  { factor, batch, sequence, offset }: Extent,
  sizes: Readonly<Record<FreeDim, number>>,
): number {
  return factor * sizes.batch ** batch * sizes.sequence ** sequence + offset;
}

/** Returns what two operations must have in common. */
function headOf(node: TracedNode): string {
  if (node.kind === 'call') return JSON.stringify([node.module, node.inputs, node.outputs]);
  return JSON.stringify([node.name, node.inputs, node.outputs, node.isDetached]);
}

function isNear(a: number, b: number): boolean {
  return a === b || Math.abs(a - b) <= 1e-6 * Math.max(Math.abs(a), Math.abs(b));
}
