import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { limited } from '../../../src/cell/widget';
import { livePlayer, type WidgetPlace } from '../../../src/figures/player/live-player';
import { playerBundle } from '../../../src/figures/player/player';
import { FakeWalk } from './fake-walk';
import { fsdpRecord } from './records';

/** A front end that has widgets: it notes what it gets. */
function frontEnd() {
  const outputs: (readonly string[])[] = [];
  const state: Record<string, unknown> = {};
  const widget = {
    bundle: { view: 'the widget' },
    isRestored: false,
    isClosed: false,
    set: (changes: object) => void Object.assign(state, changes),
    close: () => {
      widget.isClosed = true;
    },
  };
  let hear: (message: Readonly<Record<string, unknown>>) => void = () => assert.fail('no widget is open');
  const place: WidgetPlace = {
    openWidget: ({ state: first, heard }) => {
      Object.assign(state, first);
      hear = heard;
      return widget;
    },
    limited,
    replacingDisplay: () => (bundle) => void outputs.push(Object.keys(bundle)),
  };
  /** Sends a button's request, and returns the model's state when it is answered. */
  const ask = async (message: Readonly<Record<string, unknown>>) => {
    hear(message);
    await turn();
    return state as {
      view: { rounds: readonly unknown[] };
      live: { isBusy: boolean; isLive: boolean; error: string };
    };
  };
  return { place, widget, outputs, ask };
}

test('buttons move the ranks, and the player gets each new round', async () => {
  const walk = new FakeWalk(fsdpRecord());
  const { place, outputs, ask } = frontEnd();
  assert.deepEqual(livePlayer(walk, place), {});
  assert.deepEqual(outputs, [['text/html', 'text/plain', 'view']]);
  assert.equal((await ask({ does: 'next' })).view.rounds.length, 2);
  const { view, live } = await ask({ does: 'until', text: 'loss' });
  assert.equal(view.rounds.length, 11);
  assert.deepEqual([live.isBusy, live.isLive, live.error], [false, true, '']);
  assert.deepEqual(walk.calls, ['next', 'until loss']);
});

test('a request that fails is shown in the player, and later requests work', async () => {
  const walk = new FakeWalk(fsdpRecord());
  const { place, ask } = frontEnd();
  livePlayer(walk, place);
  assert.equal((await ask({ does: 'until', text: 'barrier' })).live.error, 'no rank reaches a barrier');
  assert.equal((await ask({ does: 'next' })).live.error, '');
});

test('when the walk ends, the output becomes a player without ranks, and the channel is closed', async () => {
  const walk = new FakeWalk(fsdpRecord());
  const { place, widget, outputs, ask } = frontEnd();
  livePlayer(walk, place);
  const { view, live } = await ask({ does: 'live' });
  assert.equal(view.rounds.length, fsdpRecord().rounds.length);
  assert.equal(live.isLive, false);
  assert.deepEqual(outputs.at(-1), ['text/html', 'text/plain']);
  assert.equal(widget.isClosed, true);
  assert.equal(walk.numListeners, 0);
  await ask({ does: 'next' });
  assert.deepEqual(walk.calls, ['live']);
});

test('a page that was loaded again keeps its player when the walk ends', async () => {
  const walk = new FakeWalk(fsdpRecord());
  const { place, widget, ask } = frontEnd();
  livePlayer(walk, place);
  widget.isRestored = true;
  assert.equal((await ask({ does: 'live' })).live.isLive, false);
  assert.equal(widget.isClosed, false);
});

test('a walk that has ended, and a host without widgets, get the player without ranks', async () => {
  const walk = new FakeWalk(fsdpRecord());
  const { place } = frontEnd();
  assert.deepEqual(livePlayer(walk, { ...place, openWidget: () => undefined }), playerBundle(walk.record()));
  await walk.live();
  assert.deepEqual(livePlayer(walk, place), playerBundle(fsdpRecord()));
});
