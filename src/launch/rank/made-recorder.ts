import { crc32 } from 'node:zlib';
import type { PointAction, PointListener, StepPoint } from '../../core';
import type { Engine } from '../../engine';
import { floatsOf, type Module, type Parameter, type StateSlice, spansOf } from '../../nn';
import type { Made, MadeEvent, MadePart } from '../control/made-values';
import { describePoint, pointText } from '../control/point-text';

/** A rank stores at most this many bytes of recorded values; of later values it has only digests. */
const MOST_BYTES = 2 ** 28;

/** Values with their name and place. */
interface NamedValues extends Pick<MadePart, 'name' | 'place'> {
  readonly values: Float32Array;
}

/** Records what the points of one step of a run make on this rank. [Note: made values] */
export class MadeRecorder {
  readonly events: MadeEvent[] = [];
  readonly #engine: Engine;
  readonly #model: Module;
  readonly #rank: number;
  /** By event, the values of each part; null if they were too many. */
  readonly #values: (readonly Float32Array[] | null)[] = [];
  readonly #counts = new Map<string, number>();
  /** By unit, the newest gather of its parameters. */
  readonly #gathers = new Map<string, StepPoint>();
  #bytes = 0;

  constructor(engine: Engine, model: Module, rank: number) {
    this.#engine = engine;
    this.#model = model;
    this.#rank = rank;
  }

  /** Returns a part's values; null if they were not stored. */
  valuesOf(event: number, part: number): Float32Array | null {
    return this.#values[event]?.[part] ?? null;
  }

  readonly reached: PointListener = (point): PointAction | undefined => {
    const add = (made: Made) => (values: readonly Float32Array[]) =>
      this.#add(made, point, [{ name: '', place: '', values: joined(values) }]);
    switch (point.name) {
      case 'data':
        return { got: add('batch') };
      case 'forward':
      case 'recompute':
        if (point.pipeline === undefined) this.#addParameters(point);
        return { got: add('output') };
      case 'backward':
        return { got: (values) => this.#add('gradients', point, this.#namedGradients(point, values)) };
      case 'optimizer':
        return {
          brings: () => this.#add('reduced', point, this.#states('grad')),
          got: () => this.#add('update', point, this.#states('values')),
        };
      case 'loss':
      case 'reshard':
        return undefined;
      default:
        return this.#atCollective(point, add);
    }
  };

  #atCollective(
    point: StepPoint,
    add: (made: Made) => (values: readonly Float32Array[]) => void,
  ): PointAction {
    const isGather = point.name === 'allGather' && point.collective?.cause === 'param';
    // What a gather of parameters gets is recorded by parameter, when the unit's forward or backward begins.
    if (isGather) this.#gathers.set(point.module, point);
    return { brings: add('contribution'), ...(isGather ? {} : { got: add('result') }) };
  }

  #addParameters(point: StepPoint): void {
    const parameters = this.#parametersOf(point.module).filter(({ isWhole }) => isWhole);
    const named = parameters.map((parameter) => ({
      name: parameter.name,
      place: placeOf(parameter),
      values: floatsOf(this.#engine, { tensor: parameter.tensor, offset: 0 }, parameter.size),
    }));
    const gather = this.#gathers.get(point.module);
    if (named.length > 0) this.#add('parameters', point, named, gather);
  }

  #parametersOf(unit: string): readonly Parameter[] {
    return this.#model.parameters().filter((parameter) => parameter.unit === unit && !parameter.isLocal);
  }

  /** Gives gradients the names of the unit's parameters, if each gradient has the size of one. */
  #namedGradients(point: StepPoint, values: readonly Float32Array[]): readonly NamedValues[] {
    const trained = this.#parametersOf(point.module).filter(({ requiresGrad }) => requiresGrad);
    const isEven =
      trained.length === values.length && trained.every(({ size }, i) => size === values[i]?.length);
    if (!isEven) return [{ name: '', place: '', values: joined(values) }];
    return trained.map((parameter, i) => ({
      name: parameter.name,
      place: placeOf(parameter),
      values: values[i] ?? new Float32Array(0),
    }));
  }

  #states(content: 'values' | 'grad'): readonly NamedValues[] {
    const trained = this.#model.parameters().filter(({ requiresGrad, isLocal }) => requiresGrad && !isLocal);
    const states = new Set(trained.map(({ state }) => state));
    return [...states].flatMap((state) =>
      state.slices.flatMap((slice) => {
        const spans = spansOf(state, content, slice.offset, slice.length);
        const values = joined(spans.map(({ span, length }) => floatsOf(this.#engine, span, length)));
        return values.length === 0
          ? []
          : [{ name: slice.parameter.name, place: placeOfSlice(slice), values }];
      }),
    );
  }

  #add(made: Made, point: StepPoint, named: readonly NamedValues[], namedBy: StepPoint = point): void {
    const plain = `${made} ${pointText(point)}`;
    const count = (this.#counts.get(plain) ?? 0) + 1;
    this.#counts.set(plain, count);
    const isShared = made === 'result' && (point.name === 'allReduce' || point.name === 'broadcast');
    this.events.push({
      made,
      point: describePoint(namedBy),
      module: point.module,
      key: `${plain} ${count}`,
      call: callOf(namedBy, this.#rank),
      sharedBy: isShared ? (point.collective?.ranks ?? null) : null,
      parts: named.map(digestOf),
    });
    const bytes = named.reduce((sum, { values }) => sum + values.byteLength, 0);
    const fits = this.#bytes + bytes <= MOST_BYTES;
    if (fits) this.#bytes += bytes;
    this.#values.push(fits ? named.map(({ values }) => values.slice()) : null);
  }
}

/** Returns a text that is equal for a collective's point on all its ranks, and for a send and its recv; null for other points. */
function callOf({ name, collective }: StepPoint, rank: number): string | null {
  if (collective === undefined) return null;
  const { group, ranks, number, peer } = collective;
  const isSend = name === 'send';
  if (!isSend && name !== 'recv') return `${group} ${ranks.join()} #${number}`;
  return `${group} ${isSend ? rank : peer}>${isSend ? peer : rank} #${number}`;
}

function joined(lists: readonly Float32Array[]): Float32Array {
  const [only] = lists;
  if (lists.length === 1 && only !== undefined) return only;
  const all = new Float32Array(lists.reduce((sum, { length }) => sum + length, 0));
  let offset = 0;
  for (const list of lists) {
    all.set(list, offset);
    offset += list.length;
  }
  return all;
}

function digestOf({ name, place, values }: NamedValues): MadePart {
  let [squares, first, second] = [0, 0, 0];
  let bits = 1;
  for (const value of values) {
    squares += value * value;
    // Source: Marsaglia 2003, "Xorshift RNGs", 32 bits.
    bits ^= bits << 13;
    bits ^= bits >>> 17;
    bits ^= bits << 5;
    first += bits & 1 ? value : -value;
    second += bits & 2 ? value : -value;
  }
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return {
    name,
    place: `${place}+${values.length}`,
    sum: crc32(bytes),
    norm: Math.sqrt(squares),
    marks: [first, second],
  };
}

/** Which part of a divided matrix the rank has; '' if the rank has the whole parameter. */
function placeOf({ split }: Parameter): string {
  return split === null
    ? ''
    : `${split.dim}: ${split.ranges.map(({ begin, end }) => `${begin}-${end}`).join()}`;
}

function placeOfSlice({ parameter, start }: StateSlice): string {
  return `${placeOf(parameter)} ${start}`;
}
