// Puts the views together.

function start() {
  drawOverview();
  drawStrip();
  diagramView();
  positionView();
  streamView();
  attentionView();
  flowView();
  lensView();
  nextView();
  treemapView();
  matrixView();
  startTheme();
  followNav();
  if (location.hash === '#selftest') selfTest();
}
start();
