import { join } from 'node:path';

/** The path of a built file, as a literal of JavaScript. */
const built = (path: string): string => JSON.stringify(join(__dirname, '..', '..', `${path}.js`));

/** The code of a cell that makes `shown`, a live player of `walk`; the walk is the fake one of the tests of figures. */
export const PLAYER_CELL = `
const load = (path: string): Promise<any> => import(path);
const { livePlayer } = await load(${built('src/figures/player/live-player')});
const { openWidget, limited } = await load(${built('src/cell/widget')});
const { replacingDisplay } = await load(${built('src/cell/display')});
const { FakeWalk } = await load(${built('test/figures/player/fake-walk')});
const { fsdpRecord } = await load(${built('test/figures/player/records')});
const walk = new FakeWalk(fsdpRecord());
const shown = { [Symbol.for('Jupyter.display')]: () => livePlayer(walk, { openWidget, replacingDisplay, limited }) };
`;
