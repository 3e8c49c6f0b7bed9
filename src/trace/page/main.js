// Puts the views together.

function start() {
  drawOverview();
  drawStrip();
  diagramView();
  positionView();
  if (L > 0) {  // of a model without blocks there is nothing that these could show
    streamView();
    attentionView();
    flowView();
  }
  lensView();
  nextView();
  treemapView();
  matrixView();
  startTheme();
  followNav();
  if (location.hash === '#selftest') selfTest();
}
start();
