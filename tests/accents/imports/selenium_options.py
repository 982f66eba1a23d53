from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.chrome.options import Options
o = Options()
o.add_argument('--headless')
print('set up')

# expect stdout:
# | set up
# limits: monty
