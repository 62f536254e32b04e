import type { DisplayBundle, Seconds } from '../../core';
import { pageScript, playerBundle } from './player';
import { type PackedView, packedView, playerView } from './player-view';
import type { WalkRecord } from './walk-record';

/** A walk whose ranks can still be asked. */
export interface LiveWalk {
  record(): WalkRecord;
  /** Lets each rank pass one point. */
  next(): Promise<unknown>;
  /** Lets the ranks pass points up to one that has this name. */
  until(text: string): Promise<unknown>;
  /** Lets the ranks run without halts, which ends the walk. */
  live(): Promise<unknown>;
  /** Calls the listener when the record has changed; the returned function ends this. */
  onChange(listener: () => void): () => void;
  /** Whether the walk has ended. Default: whether all ranks have reached all their points. */
  readonly isOver?: boolean;
}

/** A widget of a front end, as `openWidget` of flat `cell` makes it. */
interface Widget {
  /** The content of an output that shows the widget. */
  readonly bundle: DisplayBundle;
  /** Whether a page was loaded again and asked for the widget's state; such a page shows it only while it is open. */
  readonly isRestored: boolean;
  set(state: Readonly<Record<string, unknown>>): void;
  close(): void;
}

/** Where widgets and outputs appear; flat `cell` has the functions of the process. */
export interface WidgetPlace {
  /** Opens a widget; undefined if the host of this process has none. */
  openWidget(options: {
    readonly esm: string;
    readonly state: Readonly<Record<string, unknown>>;
    readonly heard: (message: Readonly<Record<string, unknown>>) => void;
  }): Widget | undefined;
  /** Returns a function that shows an output in place of the output that it showed before. */
  replacingDisplay(): (bundle: DisplayBundle) => void;
  /** Limits how often `send` is called: at most once in `between`. */
  limited(send: () => void, between: Seconds): { now(): void; request(): void; stop(): void };
}

/** What a player in a page knows of ranks that still walk. */
interface LiveState {
  readonly isLive: boolean;
  /** Whether the ranks are on their way to the next point. */
  readonly isBusy: boolean;
  /** Why the last request failed; '' if it did not. */
  readonly error: string;
  /** The names of points that a reader may choose for `until`. */
  readonly names: readonly string[];
}

const NAMES = [
  'allGather',
  'forward',
  'reshard',
  'loss',
  'backward',
  'recompute',
  'reduceScatter',
  'allReduce',
  'send',
  'recv',
  'allToAll',
  'broadcast',
  'barrier',
  'optimizer',
  'data',
];

/** A player gets at most one new view in this time, because an `until` may pass hundreds of points. */
const BETWEEN_VIEWS: Seconds = 0.1;

/**
 * Returns the output for a walk. Where the front end has widgets, the function shows a player whose buttons move the ranks, and
 * returns an empty bundle; when the walk ends, a player without ranks takes its place. Elsewhere it returns a player without
 * ranks, as for a walk that has ended.
 */
export function livePlayer(
  walk: LiveWalk,
  { openWidget, replacingDisplay, limited }: WidgetPlace,
): DisplayBundle {
  if (isOver(walk)) return playerBundle(walk.record());
  let live: LiveState = { isLive: true, isBusy: false, error: '', names: namesOf(walk.record()) };
  const widget = openWidget({
    esm: pageScript(),
    state: { view: viewOf(walk), live },
    heard: (message) => void answer(message),
  });
  if (widget === undefined) return playerBundle(walk.record());
  const show = replacingDisplay();
  const setLive = (change: Partial<LiveState>): void => {
    live = { ...live, ...change };
    widget.set({ live });
  };
  const views = limited(() => widget.set({ view: viewOf(walk) }), BETWEEN_VIEWS);
  const forget = walk.onChange(() => {
    if (live.isLive && isOver(walk)) end();
    else views.request();
  });
  const end = (): void => {
    if (!live.isLive) return;
    forget();
    views.stop();
    widget.set({ view: viewOf(walk) });
    setLive({ isLive: false, isBusy: false });
    show(playerBundle(walk.record()));
    if (!widget.isRestored) widget.close();
  };
  const answer = async ({ does, text }: Readonly<Record<string, unknown>>): Promise<void> => {
    if (live.isBusy || !live.isLive) return;
    setLive({ isBusy: true, error: '' });
    try {
      if (does === 'next') await walk.next();
      else if (does === 'until' && typeof text === 'string') await walk.until(text);
      else if (does === 'live') await walk.live();
      if (live.isLive) {
        if (does === 'live' || isOver(walk)) end();
        else views.now();
      }
      if (live.isLive) setLive({ isBusy: false });
    } catch (error) {
      if (live.isLive) views.now();
      setLive({ isBusy: false, error: error instanceof Error ? error.message : String(error) });
    }
  };
  show({ ...playerBundle(walk.record()), ...widget.bundle });
  return {};
}

function viewOf(walk: LiveWalk): PackedView {
  return packedView(playerView(walk.record()));
}

function isOver(walk: LiveWalk): boolean {
  if (walk.isOver !== undefined) return walk.isOver;
  return (
    walk
      .record()
      .rounds.at(-1)
      ?.every(({ state }) => state === 'ended') === true
  );
}

/** Returns the names of points that the walk has reached, then the others. */
function namesOf({ points }: WalkRecord): readonly string[] {
  const seen = new Set<string>(points.flat().map(({ point }) => point.name));
  return [...NAMES].sort((a, b) => Number(seen.has(b)) - Number(seen.has(a)));
}
