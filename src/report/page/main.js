// Initializes the page.

document.getElementById('bar').append(make('button', {id: 'theme', type: 'button', 'aria-label': 'Switch between light and dark'}));
if (location.hash !== '#selftest') takeView();
startTheme();
setData(JSON.parse(document.getElementById('data').textContent));
drawCurves();
if (location.hash === '#selftest') selfTest(); else startRefresh();
