/** What walks show: their player, and points in words. */
export { livePlayer } from './live-player';
export { describePoint, describePosition } from './point-words';
